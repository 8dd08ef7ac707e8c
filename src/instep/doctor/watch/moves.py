"""Parameters that move where they should not: frozen ones in a step, ones written between forward and backward, or twice."""

import weakref
from dataclasses import field
from functools import partial
from typing import Any

import torch
from torch import Tensor

from instep.doctor.bare_leaves import sample
from instep.doctor.hub import Hub
from instep.doctor.patches import Called
from instep.doctor.records import part_class, record_class
from instep.doctor.trace import Trace
from instep.doctor.watch.backwards import Backward
from instep.doctor.watch.calls import Call
from instep.doctor.watch.gradients import Gradients, is_zero
from instep.doctor.watch.optimizers import Step
from instep.doctor.watch.phases import Phases

FIRST = 8  # steps of a phase that are all looked at
EVERY = 32
CHECKED = 4  # parameters whose values are compared
FILLED = 32  # parameters whose gradients are looked at after a backward and before its step


@record_class
class FrozenMove:
    """A parameter that had been trained, was frozen, and is still changed by steps."""

    name: str
    optimizer: int
    site: str | None
    first_step: int
    looks: int = 0
    moves: int = 0
    change: float = 0.0  # the largest of a few elements in one step
    used: int = 0  # steps since then that found a gradient other than zero in it


@record_class
class Written:
    """Parameters that changed outside of any step."""

    how: str  # "between" forward and backward; "twice": by hand along the gradient, besides the optimizer; "kept": up (`climbs`)
    site: str | None
    name: str
    first_step: int
    times: int = 0
    looks: int = 0


@part_class
class Moves:
    """The part of the trace about parameters that move."""

    frozen: dict[int, FrozenMove] = field(default_factory=dict)
    idle: dict[int, int] = field(
        default_factory=dict
    )  # optimizer -> steps in which nothing required a gradient and nothing had one
    zeroed: dict[int, FrozenMove] = field(default_factory=dict)  # whose gradient is set to zero by hand before each step
    written: dict[str, Written] = field(default_factory=dict)
    looks: dict[str, int] = field(default_factory=dict)


class MoveWatch:
    """Fills `Moves`."""

    def __init__(self, trace: Trace, hub: Hub) -> None:
        self._trace, self._hub = trace, hub
        self._part, self._phases = trace.part(Moves), trace.part(Phases)
        self._parameters = trace.part(Gradients).parameters
        self._frozen: list[tuple[Tensor, list[float]]] = []
        self._filled: list[weakref.ref[Tensor]] = []  # to which the last backward gave a gradient that is not zero
        self._given: list[weakref.ref[Tensor]] = []  # whose gradient was not zero before hooks of the user's got it
        self._handles: list[Any] = []  # of hooks of ours, until the backward has ended
        self._zeroed: list[tuple[Tensor, list[float]]] = []
        self._moved: list[tuple[Step, Tensor, list[float], list[float]]] = []  # values before and after, until the next call
        self._forward: list[tuple[weakref.ref[Tensor], list[float]]] = []
        self._after: list[tuple[weakref.ref[Tensor], list[float], list[float]]] = []

    def remove(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles.clear()

    def _looks(self) -> bool:
        steps = self._trace.steps
        return 1 <= steps - self._phases.step <= FIRST or steps % EVERY == 0

    # -- steps

    def before_step(self, step: Step) -> None:
        self.remove()  # of a backward that raised
        fact = step.fact
        if fact is not None and fact.parameters == 0 and not _has_gradients(step):
            number = step.record.number
            self._part.idle[number] = self._part.idle.get(number, 0) + 1
        self._compare_after(None if step.closure else step.site)
        self._note_zeroed(step)
        self._forward = []
        self._frozen = []
        if step.record.steps % 4 == 0:
            self._note_frozen(step)

    def _note_frozen(self, step: Step) -> None:
        """Those that were trained before; and, beside others that learn, those without a gradient, which torch's optimizers
        leave alone and others may not."""
        mine = [tensor for group in step.optimizer.param_groups for tensor in group["params"]]
        learns = any(tensor.requires_grad and tensor.grad is not None for tensor in mine)
        for tensor in mine:
            if tensor.requires_grad or len(self._frozen) >= 32:
                continue
            known = self._parameters.get(id(tensor))
            if known is not None and ((tensor.grad is None and learns) or (tensor.grad is not None and known.arrivals)):
                self._frozen.append((tensor, sample(tensor)))

    def _note_zeroed(self, step: Step) -> None:
        """Gradients that the last backward filled, or that were not zero before hooks of the user's, that are zero now, and that
        were not cleared with all others."""
        filled, self._filled, self._zeroed = [reference() for reference in self._filled], [], []
        if not filled and not self._part.zeroed:
            return
        mine = {id(tensor) for group in step.optimizer.param_groups for tensor in group["params"]}
        self._note_used(mine)
        held = [tensor for tensor in filled if tensor is not None and tensor.grad is not None and id(tensor) in mine]
        zero = [tensor for tensor in held if tensor.grad is not None and is_zero(tensor.grad)]
        if len(zero) < len(held) and not step.inside and not step.closure and step.is_torchs:
            self._zeroed = [(tensor, sample(tensor)) for tensor in zero[:CHECKED]]

    def _note_used(self, mine: set[int]) -> None:
        """Of those that were held by zeros before: whether this step uses their gradient. They are few, and looked at always."""
        for key, fact in self._part.zeroed.items():
            known = self._parameters.get(key) if key in mine else None
            tensor = known.reference() if known is not None else None
            if tensor is not None and tensor.grad is not None and not is_zero(tensor.grad):
                fact.used += 1

    def after_step(self, step: Step) -> None:
        self._moved += [(step, tensor, values, sample(tensor)) for tensor, values in self._zeroed]
        self._compare(step, self._frozen, self._part.frozen)
        self._zeroed = []
        self._frozen = []
        self._after = []
        if self._looks() and not step.closure and not step.inside:
            self._after = self._with_gradients([t for group in step.optimizer.param_groups for t in group["params"]])

    def _settle(self) -> None:
        """At the next forward or backward: who has put the weights back holds them."""
        moved, self._moved = self._moved, []
        for step, tensor, values, after in moved:
            self._compare(step, [(tensor, values if sample(tensor) == after else sample(tensor))], self._part.zeroed)

    def before_call(self, call: Call) -> None:
        if call.grad and self._moved:
            self._settle()

    def on_rest(self) -> None:
        self._moved = []  # holds optimizers and weights of the user's

    def _compare(self, step: Step, looked_at: list[tuple[Tensor, list[float]]], facts: dict[int, FrozenMove]) -> None:
        """Whether a step has moved these tensors, which were looked at before it."""
        for tensor, values in looked_at:
            known, now = self._parameters.get(id(tensor)), sample(tensor)
            if known is None:
                continue
            fact = facts.get(known.key)
            if fact is None:
                fact = facts[known.key] = FrozenMove(known.name, step.record.number, step.site, self._trace.steps - 1)
            fact.looks += 1
            if now != values and (tensor.grad is not None or _is_beyond_rounding(now, values)):
                fact.moves += 1
                fact.change = max([fact.change, *(abs(a - b) for a, b in zip(now, values, strict=True))])

    # -- between a forward and its backward

    def after_call(self, call: Call) -> None:
        if not call.grad or not call.root.parameters:
            return
        self._compare_after(call.site)
        if self._looks() and not self._forward:
            chosen: list[Tensor] = [
                tensor for tensor in call.module.parameters() if tensor.requires_grad and not tensor.is_shared()
            ]
            self._forward = [(weakref.ref(tensor), sample(tensor)) for tensor in _some(chosen)]

    def on_backward(self, backward: Backward, _: Tensor) -> None:
        self._settle()
        self._listen_before_hooks()
        forward, self._forward, self._after = self._forward, [], []
        if not forward or backward.inside_step:
            return
        moved = [reference() for reference, values in forward if (tensor := reference()) is not None and sample(tensor) != values]
        self._note("between", backward.site, moved[0] if moved else None)

    def _listen_before_hooks(self) -> None:
        """Hear of gradients before hooks of the user's own do: those may set to zero what is not."""
        self.remove()
        self._given = []
        if not self._is_looked_at() or self._hub.compiled:
            return
        for parameter in list(self._parameters.values())[:FILLED]:
            tensor = parameter.reference()
            if tensor is not None and parameter.optimizers and _is_hooked(tensor):
                note = partial(_note_given, self._given, weakref.ref(tensor))
                handle = tensor.register_hook(partial(self._hub.tell, (note,)))
                hooks: Any = tensor._backward_hooks
                for other in [key for key in hooks if key != handle.id]:
                    hooks[other] = hooks.pop(other)  # after ours; torch goes by the order in which they were put there
                self._handles.append(handle)

    def _is_looked_at(self) -> bool:
        return self._trace.steps - self._phases.step < FIRST or _is_chosen(self._trace.steps)

    def after_backward(self, _: Called) -> None:
        self.remove()
        if self._is_looked_at():
            held = [(parameter, parameter.reference()) for parameter in list(self._parameters.values())[:FILLED]]
            self._filled = [
                weakref.ref(tensor)
                for parameter, tensor in held
                if tensor is not None and parameter.optimizers and parameter.device == "cpu" and _is_filled(tensor)
            ]
            reached = {id(reference()) for reference in self._filled}
            self._filled += [reference for reference in self._given if id(reference()) not in reached]
        if self._looks():
            known = [parameter.reference() for parameter in list(self._parameters.values())[:64] if parameter.optimizers]
            self._after = self._with_gradients([tensor for tensor in known if tensor is not None])

    # -- by hand along the gradient, besides the optimizer

    def _with_gradients(self, tensors: list[Tensor]) -> list[tuple["weakref.ref[Tensor]", list[float], list[float]]]:
        chosen = _some(
            [tensor for tensor in tensors if tensor.requires_grad and tensor.grad is not None and not tensor.is_shared()]
        )
        return [(weakref.ref(tensor), sample(tensor), sample(tensor.grad)) for tensor in chosen if tensor.grad is not None]

    def _compare_after(self, site: str | None) -> None:
        after, self._after = self._after, []
        if not after or site is None:
            return
        moved = [
            tensor
            for reference, values, slope in after
            if (tensor := reference()) is not None and _followed(sample(tensor), values, slope)
        ]
        self._note("twice", site, moved[0] if moved else None)

    def _note(self, how: str, site: str | None, tensor: Tensor | None) -> None:
        self._part.looks[how] = self._part.looks.get(how, 0) + 1
        if tensor is None:
            return
        fact = self._part.written.get(how)
        if fact is None:
            known = self._parameters.get(id(tensor))
            name = known.name if known is not None else ""
            fact = self._part.written[how] = Written(how, site, name, self._trace.steps)
        fact.times += 1


def _has_gradients(step: Step) -> bool:
    """Whether gradients were put there by hand: evolution strategies and their like."""
    return any(tensor.grad is not None for group in step.optimizer.param_groups for tensor in group["params"])


def _is_beyond_rounding(now: list[float], values: list[float]) -> bool:
    """A projection that is done again may change the last digit."""
    return any(abs(a - b) > 1e-6 * abs(b) for a, b in zip(now, values, strict=True))


def _is_chosen(step: int) -> bool:
    """About one step in eight, in no regular order: tasks may take turns."""
    return (step * 2654435761 >> 9) % 8 == 0


def _is_hooked(tensor: Tensor) -> bool:
    """Whether somebody else than the doctor is given its gradient, and may change it."""
    if tensor.device.type != "cpu" or not tensor.requires_grad:
        return False
    return bool(tensor._backward_hooks) or len(tensor._post_accumulate_grad_hooks or ()) > 1


def _note_given(given: list[weakref.ref[Tensor]], reference: weakref.ref[Tensor], grad: Tensor) -> None:
    """A hook of a parameter: it changes nothing."""
    if grad.layout is torch.strided and not is_zero(grad):
        given.append(reference)


def _is_filled(tensor: Tensor) -> bool:
    return tensor.grad is not None and tensor.requires_grad and not is_zero(tensor.grad)


def _some(tensors: list[Tensor]) -> list[Tensor]:
    """The first and the last few."""
    return tensors if len(tensors) <= CHECKED else [*tensors[: CHECKED // 2], *tensors[-CHECKED // 2 :]]


def _followed(now: list[float], values: list[float], slope: list[float]) -> bool:
    """Whether values went down along the gradient, all at one rate."""
    rates = [(a - b) / g for a, b, g in zip(now, values, slope, strict=True) if abs(g) > 1e-6] if len(now) == len(slope) else []
    if len(rates) < 4 or max(rates) >= 0:
        return False
    mean = sum(rates) / len(rates)
    return all(abs(rate - mean) <= 0.02 * abs(mean) for rate in rates)


OBSERVERS: list[Any] = [MoveWatch]
