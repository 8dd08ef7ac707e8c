"""Weights that somebody means to hold still, and that move all the same: rows whose gradient is set to zero by hand, and frozen
weights that a decay by hand makes smaller.

Rows: those whose gradient is there after a backward and gone before the step, always. Gradients that are made sparse lose other
rows each time.
"""

import weakref
from dataclasses import field

import torch
from torch import Tensor

from instep.doctor.bare_leaves import sample
from instep.doctor.hub import Hub
from instep.doctor.patches import Called
from instep.doctor.records import part_class, record_class
from instep.doctor.trace import Trace
from instep.doctor.watch.calls import Calls
from instep.doctor.watch.gradients import Gradients
from instep.doctor.watch.optimizers import Step
from instep.doctor.watch.phases import Phases

FIRST = 12  # steps of a phase that are looked at
EVERY = 16
PARAMETERS = 8  # whose rows are looked at
FROZEN = 4
LARGEST = 1 << 20
ROWS = 4  # of those that are held, whose values are compared


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


@part_class
class HeldRows:
    """The part of the trace about them."""

    all: dict[int, Held] = field(default_factory=dict)
    shrunk: dict[int, Held] = field(default_factory=dict)


class HeldRowWatch:
    """Fills `HeldRows`."""

    def __init__(self, trace: Trace, hub: Hub) -> None:
        self._trace, self._part, self._phases = trace, trace.part(HeldRows), trace.part(Phases)
        self._parameters, self._calls = trace.part(Gradients).parameters, trace.part(Calls)
        self._loud: list[tuple[weakref.ref[Tensor], Tensor]] = []  # and which rows had a gradient after the backward
        # weights, which rows have been held so far, and which rows had a gradient that was left as it is
        self._held: dict[int, tuple[weakref.ref[Tensor], Tensor, Tensor]] = {}
        self._before: list[tuple[Tensor, Tensor, Tensor]] = []  # weight, rows, their values before the step
        self._frozen: dict[int, tuple[weakref.ref[Tensor], list[float]]] = {}  # values at the last look

    def _looks(self) -> bool:
        steps = self._trace.steps
        return 1 <= steps - self._phases.step <= FIRST or steps % EVERY == 0

    def after_backward(self, _: Called) -> None:
        self._loud = []
        if not self._looks():
            return
        for parameter in self._parameters.values():
            tensor = parameter.reference()
            if tensor is None or tensor.grad is None or not parameter.optimizers or not _is_table(tensor):
                continue
            rows = tensor.grad.detach().flatten(1).any(1)
            if bool(rows.any()):
                self._loud.append((weakref.ref(tensor), rows))
            if len(self._loud) >= PARAMETERS:
                return

    def before_step(self, step: Step) -> None:
        loud, self._loud, self._before = self._loud, [], []
        if step.inside or step.closure:
            return
        for reference, rows in loud:
            tensor = reference()
            if tensor is None or tensor.grad is None or tensor.grad.shape != tensor.shape:
                continue
            now = tensor.grad.detach().flatten(1).any(1)
            quiet = rows & ~now
            known = self._held.get(id(tensor))
            if known is None or known[0]() is not tensor:
                known = (reference, quiet, torch.zeros_like(quiet))
            held, used = known[1] | quiet, known[2] | (rows & now)
            self._held[id(tensor)] = (reference, held, used)
            chosen = quiet.nonzero().flatten()[:ROWS]
            if len(chosen) and bool(now.any()) and not bool((held & used).any()):
                self._before.append((tensor, chosen, tensor.detach()[chosen].clone()))
            elif (fact := self._part.all.get(id(tensor))) is not None:
                fact.looks += 1  # rows that are held at one time and used at another, or none of them
        self._note_frozen(step)

    def after_step(self, step: Step) -> None:
        before, self._before = self._before, []
        for tensor, rows, values in before:
            known = self._parameters.get(id(tensor))
            if known is None:
                continue
            fact = self._part.all.get(known.key)
            if fact is None:
                fact = self._part.all[known.key] = Held(known.name, step.site, self._trace.steps - 1, len(tensor))
            fact.rows = int(self._held[id(tensor)][1].sum())
            fact.looks += 1
            fact.moves += not torch.equal(tensor.detach()[rows], values)

    def _note_frozen(self, step: Step) -> None:
        """Frozen weights of a model that is trained, from one look to the next."""
        if not self._looks():
            return
        trained = [top for root in self._calls.roots[:16] if root.trained and (top := root.reference()) is not None]
        chosen = [tensor for top in trained for tensor in top.parameters() if not tensor.requires_grad and _is_table(tensor)]
        last, self._frozen = self._frozen, {}
        for tensor in chosen[:FROZEN]:
            values = sample(tensor)
            self._frozen[id(tensor)] = (weakref.ref(tensor), values)
            before = last.get(id(tensor))
            if before is None or before[0]() is not tensor:
                continue
            fact = self._part.shrunk.get(id(tensor))
            if fact is None or fact.of != len(tensor):
                known = self._parameters.get(id(tensor))
                name = known.name if known is not None else f"tensor{tuple(tensor.shape)}"
                fact = self._part.shrunk[id(tensor)] = Held(name, step.site, self._trace.steps, len(tensor))
            fact.looks += 1
            fact.moves += _is_shrunk(before[1], values)


def _is_table(tensor: Tensor) -> bool:
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
