"""Scales: how large the numbers are that reach the first layer of a model, in the first training calls of a phase."""

from dataclasses import field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.compiler import is_compiling
from torch.nn.modules.module import register_module_forward_pre_hook

from instep.doctor.hub import Hub
from instep.doctor.records import part_class, record_class
from instep.doctor.trace import Trace
from instep.doctor.watch.calls import Call
from instep.doctor.watch.phases import Phases

STEPS = 4  # after so many steps of a phase nobody looks any more
LAYERS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.RNNBase)


@record_class
class InputScale:
    """What the first layer of a root was given."""

    root: int
    site: str | None
    layer: str
    looks: int = 0
    large: int = 0  # with an element above 50 in size
    lowest: float = 0.0
    highest: float = 0.0
    first_step: int = 0


@part_class
class Scales:
    """The part of the trace about the size of inputs."""

    inputs: dict[tuple[int, int], InputScale] = field(default_factory=dict)  # by root and phase


class ScaleWatch:
    """Fills `Scales`. A hook of its own, for the first steps only: what comes first is not known from the root's input."""

    def __init__(self, trace: Trace, hub: Hub) -> None:
        self._trace, self._hub = trace, hub
        self._part, self._phases, self._phase = trace.part(Scales), trace.part(Phases), 0
        self._until = STEPS
        self._handle: Any = None
        self._call: Call | None = None

    def install(self, _: list[object]) -> None:
        self._handle = register_module_forward_pre_hook(self._layer)

    def remove(self) -> None:
        if self._handle is not None:
            self._handle.remove()
            self._handle = None

    def after_step(self, _: Any) -> None:
        if self._phase != self._phases.number:
            self._phase, self._until = self._phases.number, self._trace.steps + STEPS
            if self._handle is None and not self._hub.compiled:
                self.install([])
        elif self._handle is not None and self._trace.steps >= self._until and not self._hub.compiled:
            self.remove()

    def on_rest(self) -> None:
        if not self._hub.compiled:
            self.remove()

    def before_call(self, call: Call) -> None:
        self._call = call if self._handle is not None and call.grad and call.root.parameters else None

    def after_call(self, _: Call) -> None:
        self._call = None

    def _layer(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        if is_compiling() or self._call is None or self._hub.quiet or not module._parameters:
            return
        call, self._call = self._call, None
        self._hub.tell((self._look,), module, args, call)

    def _look(self, module: nn.Module, args: tuple[Any, ...], call: Call) -> None:
        input = args[0] if args else None
        if not isinstance(module, LAYERS) or not isinstance(input, Tensor) or not input.is_floating_point() or not input.numel():
            return
        key = (call.root.number, self._phase)
        if key not in self._part.inputs:
            self._part.inputs[key] = InputScale(call.root.number, call.site, type(module).__name__, first_step=call.step)
        known = self._part.inputs[key]
        self._hub.read(torch.stack(torch.aminmax(input.detach())), partial(_note, known))


def _note(known: InputScale, values: list[float]) -> None:
    known.looks += 1
    known.lowest, known.highest = min(known.lowest, values[0]), max(known.highest, values[1])
    known.large += max(-values[0], values[1]) > 50


OBSERVERS = [ScaleWatch]
