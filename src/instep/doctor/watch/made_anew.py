"""Layers that a forward makes for itself each time: drawn anew in every step, registered nowhere, and never learned."""

import weakref
from dataclasses import field
from typing import Any

import torch
from torch import nn

from instep.doctor.hub import Hub
from instep.doctor.records import part_class, record_class
from instep.doctor.trace import Trace
from instep.doctor.watch.calls import Call, Root
from instep.doctor.watch.gradients import own_parameters

LIMIT = 64


@record_class
class Made:
    """Layers of one class and shape that a root was seen to call for the first time after training had begun."""

    name: str
    root: int
    shapes: tuple[tuple[int, ...], ...]
    count: int = 0
    alive: int = 0  # of those, now


@part_class
class MadeAnew:
    """The part of the trace about them."""

    all: dict[tuple[Any, ...], Made] = field(default_factory=dict)  # by root, class and shapes


class MadeAnewWatch:
    """Fills `MadeAnew`."""

    def __init__(self, trace: Trace, hub: Hub) -> None:
        self._trace, self._part = trace, trace.part(MadeAnew)
        self._trains = False  # whether the call that goes on is one with grad, in train mode

    def before_call(self, call: Call) -> None:
        self._trains = call.grad and call.training

    def on_module_seen(self, module: nn.Module, root: Root | None) -> None:
        if root is None or root.sharded or not self._trains or not self._trace.steps or not torch.is_grad_enabled():
            return
        own = [tensor for _, tensor in own_parameters(module)]
        shapes = tuple(tuple(tensor.shape) for tensor in own)
        if not any(len(shape) > 1 for shape in shapes) or not all(tensor.requires_grad for tensor in own):
            return  # a norm that begins as it stays does no harm
        top, known = root.reference(), self._part.all
        if top is None or any(part is module for part in top.modules()):
            return
        key = (root.number, type(module).__name__, shapes)
        if key in known or len(known) < LIMIT:
            made = known.setdefault(key, Made(type(module).__name__, root.number, shapes))
            made.count += 1
            made.alive += 1
            weakref.finalize(module, _note_gone, made).atexit = False


def _note_gone(made: Made) -> None:
    made.alive -= 1


OBSERVERS = [MadeAnewWatch]
