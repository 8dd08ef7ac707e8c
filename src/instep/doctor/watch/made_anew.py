"""Layers that a forward makes for itself each time: drawn anew in every step, registered nowhere, and never learned."""

import weakref
from dataclasses import field
from typing import Any

import torch
from torch import Tensor, nn

from instep.doctor.hub import Hub
from instep.doctor.records import part_class, record_class
from instep.doctor.trace import Trace
from instep.doctor.watch.calls import Call, Root
from instep.doctor.watch.gradients import own_parameters

LIMIT = 64
VALUES = 4  # of a layer, by which it is told from the last one
NEAR = 0.5  # of the size of the weights: two that are drawn are further apart than either is large


@record_class
class Made:
    """Layers of one class and shape that a root was seen to call for the first time after training had begun."""

    name: str
    root: int
    shapes: tuple[tuple[int, ...], ...]
    count: int = 0  # in training calls
    evaluated: int = 0  # in calls in eval mode
    alive: int = 0  # of those of training calls, now
    last: tuple[float, ...] = ()  # a few values of the last one


@part_class
class MadeAnew:
    """The part of the trace about them."""

    all: dict[tuple[Any, ...], Made] = field(default_factory=dict)  # by root, class and shapes


class MadeAnewWatch:
    """Fills `MadeAnew`."""

    def __init__(self, trace: Trace, hub: Hub) -> None:
        self._trace, self._part = trace, trace.part(MadeAnew)
        self._trains = self._evaluates = False  # whether the call that goes on is one with grad in train mode, or in eval mode

    def before_call(self, call: Call) -> None:
        self._trains, self._evaluates = call.grad and call.training, not call.training

    def on_module_seen(self, module: nn.Module, root: Root | None) -> None:
        if root is None or root.sharded or not self._trace.steps or not (self._trains or self._evaluates):
            return
        if self._trains and not torch.is_grad_enabled():
            return
        own = [tensor for _, tensor in own_parameters(module)]
        shapes = tuple(tuple(tensor.shape) for tensor in own)
        if not any(len(shape) > 1 for shape in shapes) or not all(tensor.requires_grad for tensor in own):
            return  # a norm that begins as it stays does no harm
        top, known = root.reference(), self._part.all
        if top is None or any(part is module for part in top.modules()) or _is_copied(own, top):
            return
        key = (root.number, type(module).__name__, shapes)
        if key in known or len(known) < LIMIT:
            self._note(known.setdefault(key, Made(type(module).__name__, root.number, shapes)), module, own)

    def _note(self, made: Made, module: nn.Module, own: list[Tensor]) -> None:
        widest = max(own, key=Tensor.dim).detach()
        values = tuple(widest.reshape(-1)[:VALUES].tolist())
        before, made.last = made.last, values
        if values == before:
            return  # a filter that is given its values: not drawn
        if self._evaluates:
            made.evaluated += 1
            return
        made.count += 1
        made.alive += 1
        weakref.finalize(module, _note_gone, made).atexit = False


def _is_copied(own: list[Tensor], top: nn.Module) -> bool:
    """Whether the weights are those of a registered layer, or near them: a copy that is adapted, or disturbed, for one call."""
    weights = [tensor.detach() for tensor in own if tensor.dim() > 1]
    registered = [tensor.detach() for tensor in top.parameters()]
    return all(any(_is_near(weight, other) for other in registered) for weight in weights)


def _is_near(weight: Tensor, other: Tensor) -> bool:
    if weight.shape != other.shape or weight.device != other.device:
        return False
    return bool((weight - other).norm() <= NEAR * other.norm())


def _note_gone(made: Made) -> None:
    made.alive -= 1


OBSERVERS = [MadeAnewWatch]
