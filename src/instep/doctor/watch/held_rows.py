"""Weights that somebody means to hold still, and that move all the same: rows whose gradient is set to zero by hand, and frozen
weights that a decay by hand makes smaller.

Rows: those whose gradient is there after a backward and gone before the step, always. Gradients that are made sparse lose other
rows each time. What a step has moved counts only if it still is so at the next forward or backward: who puts the rows back after
the step holds them.
"""

import weakref
from dataclasses import field
from typing import Any

import torch
from torch import Tensor

from instep.doctor.bare_leaves import sample
from instep.doctor.hub import Hub
from instep.doctor.patches import Called
from instep.doctor.records import part_class, record_class
from instep.doctor.trace import Trace
from instep.doctor.watch.calls import Call, Calls
from instep.doctor.watch.gradients import Gradients
from instep.doctor.watch.optimizers import Step
from instep.doctor.watch.phases import Phases

FIRST = 12  # steps of a phase that are looked at
EVERY = 16
PARAMETERS = 8  # whose rows are looked at
FROZEN = 4
TRAINED = 2
LARGEST = 1 << 20
ROWS = 4  # of those that are held, whose values are compared
LIMIT = 64  # weights of either kind that are known


@record_class
class Held:
    """A weight some rows of which are held by zeros, or all of which is frozen."""

    name: str
    site: str | None
    first_step: int
    of: int
    rows: int = 0
    looks: int = 0
    moves: int = 0
    used: int = 0  # looks at which rows that were held at another time had a gradient


@part_class
class HeldRows:
    """The part of the trace about them."""

    all: list[Held] = field(default_factory=list)
    shrunk: list[Held] = field(default_factory=list)


class _Rows:
    """The rows of one weight."""

    __slots__ = ("fact", "held", "reference", "used")

    def __init__(self, tensor: Tensor, rows: Tensor) -> None:
        self.reference = weakref.ref(tensor)
        self.held, self.used = torch.zeros_like(rows), torch.zeros_like(rows)  # … had a gradient that was left as it is
        self.fact: Held | None = None


class _Stepped:
    """Held rows around a step."""

    __slots__ = ("after", "before", "chosen", "known", "site", "step")

    def __init__(self, known: _Rows, chosen: Tensor, before: Tensor) -> None:
        self.known, self.chosen, self.before = known, chosen, before
        self.after: Tensor | None = None
        self.site: str | None = None
        self.step = 0


class HeldRowWatch:
    """Fills `HeldRows`."""

    def __init__(self, trace: Trace, hub: Hub) -> None:
        self._trace, self._part, self._phases = trace, trace.part(HeldRows), trace.part(Phases)
        self._parameters, self._calls = trace.part(Gradients).parameters, trace.part(Calls)
        self._filled: list[tuple[weakref.ref[Tensor], Tensor]] = []  # and which rows had a gradient after the backward
        self._held: dict[int, _Rows] = {}
        self._steps: list[_Stepped] = []  # until the next forward or backward
        self._frozen: dict[int, tuple[weakref.ref[Tensor], list[float], Held | None]] = {}  # values at the last look
        self._trained: list[tuple[weakref.ref[Tensor], list[float]]] = []  # weights that are trained, after the last step

    def _looks(self) -> bool:
        steps = self._trace.steps
        return 1 <= steps - self._phases.step <= FIRST or steps % EVERY == 0

    def on_rest(self) -> None:
        self._filled, self._steps = [], []

    def before_call(self, call: Call) -> None:
        if call.grad and self._steps:
            self._compare()

    def on_backward(self, *_: Any) -> None:
        self._compare()

    def after_backward(self, _: Called) -> None:
        self._filled = []
        if not self._looks():
            return
        for parameter in self._parameters.values():
            tensor = parameter.reference()
            if tensor is None or tensor.grad is None or not parameter.optimizers or not _has_rows(tensor):
                continue
            rows = tensor.grad.detach().flatten(1).any(1)
            if bool(rows.any()):
                self._filled.append((weakref.ref(tensor), rows))
            if len(self._filled) >= PARAMETERS:
                return

    def before_step(self, step: Step) -> None:
        filled, self._filled = self._filled, []
        if step.inside or step.closure:
            return
        for reference, rows in filled if step.is_torchs else ():
            tensor = reference()
            grad = None if tensor is None or _has_own_decay(step, tensor) else tensor.grad
            if tensor is not None and grad is not None and grad.shape == tensor.shape:
                self._note_rows(tensor, rows, grad.detach().flatten(1).any(1))
        self._note_frozen(step)

    def _note_rows(self, tensor: Tensor, filled: Tensor, now: Tensor) -> None:
        """Which rows have lost their gradient since the backward, and what they are before the step."""
        known = self._known(tensor, filled)
        if known is None:
            return
        zeroed = filled & ~now
        known.held |= zeroed
        known.used |= filled & now
        chosen = zeroed.nonzero().flatten()[:ROWS]
        if len(chosen) and bool(now.any()) and not bool((known.held & known.used).any()):
            self._steps = [each for each in self._steps if each.known is not known]
            self._steps.append(_Stepped(known, chosen, tensor.detach()[chosen].clone()))
        elif known.fact is not None:
            known.fact.looks += 1  # none of them is held now
            known.fact.used += bool((known.held & known.used).any())

    def _known(self, tensor: Tensor, rows: Tensor) -> _Rows | None:
        known = self._held.get(id(tensor))
        if known is not None and known.reference() is tensor and len(known.held) == len(rows):
            return known
        if len(self._held) >= LIMIT:
            self._held = {key: each for key, each in self._held.items() if each.reference() is not None}
        if len(self._held) >= LIMIT:
            return None
        known = self._held[id(tensor)] = _Rows(tensor, rows)
        return known

    def after_step(self, step: Step) -> None:
        for stepped in self._steps:
            tensor = stepped.known.reference()
            if tensor is not None:  # by the last of several optimizers, where that is the one it belongs to
                stepped.after = tensor.detach()[stepped.chosen].clone()
                stepped.site, stepped.step = step.site, self._trace.steps - 1
        self._note_trained(step)

    def _compare(self) -> None:
        """Whether rows are still where a step has moved them to."""
        steps, self._steps = self._steps, []
        for stepped in steps:
            tensor, known = stepped.known.reference(), stepped.known
            parameter = self._parameters.get(id(tensor)) if tensor is not None else None
            if tensor is None or parameter is None or stepped.after is None:
                continue
            if known.fact is None:
                if len(self._part.all) >= LIMIT:
                    continue
                known.fact = Held(parameter.name, stepped.site, stepped.step, len(tensor))
                self._part.all.append(known.fact)
            known.fact.rows = int(known.held.sum())
            known.fact.looks += 1
            moved = not torch.equal(stepped.before, stepped.after)
            known.fact.moves += moved and torch.equal(tensor.detach()[stepped.chosen], stepped.after)

    def _note_trained(self, step: Step) -> None:
        """A few weights that are trained, to see whether something besides the optimizer shrinks them before the next step."""
        self._trained = []
        if self._frozen and self._looks() and not step.inside:
            held = (tensor for group in step.optimizer.param_groups for tensor in group["params"])
            chosen = [tensor for tensor in held if tensor.requires_grad and _has_rows(tensor)][:TRAINED]
            self._trained = [(weakref.ref(tensor), sample(tensor)) for tensor in chosen]

    def _are_trained_shrunk(self) -> bool:
        """Whether they have all become smaller since the last step: a decay by hand. Who fades out a frozen branch, and nothing
        else, means it."""
        alive = [(tensor, values) for reference, values in self._trained if (tensor := reference()) is not None]
        return bool(alive) and all(_is_shrunk(values, sample(tensor)) for tensor, values in alive)

    def _note_frozen(self, step: Step) -> None:
        """Frozen weights of a model that is trained, from one look to the next."""
        if not self._looks():
            return
        trained = [top for root in self._calls.roots[:16] if root.trained and (top := root.reference()) is not None]
        chosen = [tensor for top in trained for tensor in top.parameters() if not tensor.requires_grad and _has_rows(tensor)]
        last, self._frozen = self._frozen, {}
        by_decay = self._are_trained_shrunk()
        for tensor in chosen[:FROZEN]:
            values, before = sample(tensor), last.get(id(tensor))
            fact = None
            if before is not None and before[0]() is tensor:
                fact = before[2] or self._new_shrunk(tensor, step)
                if fact is not None:
                    fact.looks += 1
                    fact.moves += by_decay and _is_shrunk(before[1], values)
            self._frozen[id(tensor)] = (weakref.ref(tensor), values, fact)

    def _new_shrunk(self, tensor: Tensor, step: Step) -> Held | None:
        if len(self._part.shrunk) >= LIMIT:
            return None
        known = self._parameters.get(id(tensor))
        name = known.name if known is not None else f"tensor{tuple(tensor.shape)}"
        self._part.shrunk.append(fact := Held(name, step.site, self._trace.steps, len(tensor)))
        return fact


def _has_own_decay(step: Step, tensor: Tensor) -> bool:
    """Whether a weight has a decay that no other weight of its optimizer has: somebody chose it, to fade its rows out."""
    decays = {id(each): group.get("weight_decay", 0) for group in step.optimizer.param_groups for each in group["params"]}
    mine = decays.pop(id(tensor), 0)
    return bool(mine) and bool(decays) and mine not in decays.values()


def _has_rows(tensor: Tensor) -> bool:
    plain = tensor.device.type == "cpu" and tensor.layout is torch.strided
    grad = tensor.grad
    return plain and tensor.dim() >= 2 and 16 <= tensor.numel() <= LARGEST and (grad is None or grad.layout is torch.strided)


def _is_shrunk(before: list[float], now: list[float]) -> bool:
    """Whether all values have become smaller by one and the same factor, by more than rounding."""
    lost = [1 - b / a for a, b in zip(before, now, strict=True) if abs(a) > 1e-6] if len(before) == len(now) else []
    if len(lost) < 8 or min(lost) < 1e-5 or max(lost) > 0.5:
        return False
    return max(lost) - min(lost) <= 0.05 * max(lost)


OBSERVERS = [HeldRowWatch]
