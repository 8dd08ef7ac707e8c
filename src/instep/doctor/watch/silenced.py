"""Parameters that have been trained, are given to a new optimizer, and get no gradient from there on.

An encoder that is fine-tuned after its pretraining, through a function that runs it under no_grad or detaches what it gives. How
its layers are called is looked at in the first steps of such an optimizer only.
"""

from dataclasses import field
from typing import Any

import torch
from torch import Tensor, nn

from instep.doctor.hub import Hub
from instep.doctor.records import part_class, record_class
from instep.doctor.trace import Trace
from instep.doctor.watch.calls import Call
from instep.doctor.watch.gradients import Gradients, Parameter, is_zero, own_parameters
from instep.doctor.watch.optimizers import OptimizerRecord, Step

STEPS = 24  # of the optimizer, after which a parameter without a gradient counts
LOOKS = 12  # of those, in which calls are watched closely
LIMIT = 16


@record_class
class Silenced:
    """The parameters of one optimizer that had gradients before it was made, and none since."""

    optimizer: int
    root: int  # in which their layers are called
    names: list[str]
    in_grad: bool  # their layers are called with grad on: what they give is cut off later
    alone: bool  # the optimizer has no others that get gradients


@part_class
class Silences:
    """The part of the trace about parameters that get no gradient any more."""

    all: list[Silenced] = field(default_factory=list)


class _Later:
    """An optimizer that was made after the first step."""

    __slots__ = ("before", "called", "record")

    def __init__(self, record: OptimizerRecord, before: dict[int, tuple[Parameter, int]]) -> None:
        self.record = record
        self.before = before  # what had gradients, and how many
        self.called: dict[int, tuple[int, bool]] = {}  # parameter -> the root in which its layer is called, and whether with grad


class SilenceWatch:
    """Fills `Silences`."""

    def __init__(self, trace: Trace, hub: Hub) -> None:
        self._trace = trace
        self._part, self._parameters = trace.part(Silences), trace.part(Gradients).parameters
        self._later: dict[int, _Later] = {}
        self._found: list[tuple[Silenced, list[tuple[Parameter, int]]]] = []

    def wants_modules(self) -> dict[type, Any]:
        return {nn.Module: self._module_called}

    def on_optimizer(self, record: OptimizerRecord, optimizer: torch.optim.Optimizer) -> None:
        self._later = {number: later for number, later in self._later.items() if later.record.alive}
        if not self._trace.steps or len(self._later) >= LIMIT:
            return
        known = (self._parameters.get(id(tensor)) for group in optimizer.param_groups for tensor in group["params"])
        before = {each.key: (each, each.arrivals) for each in known if each is not None and each.arrivals}
        if before:
            self._later[record.number] = _Later(record, before)

    def before_call(self, call: Call) -> None:
        if self._later and call.training and any(_is_new(later.record) for later in self._later.values()):
            call.closely = True

    def _module_called(self, module: nn.Module, _: Any, __: Any, call: Call) -> None:
        if not self._later or not call.training or (call.kind is not None and call.kind.inside):
            return
        for _name, tensor in own_parameters(module):
            for later in self._later.values():
                if id(tensor) in later.before:
                    _, in_grad = later.called.get(id(tensor), (0, False))
                    later.called[id(tensor)] = (call.root.number, in_grad or (call.grad and torch.is_grad_enabled()))

    def after_step(self, step: Step) -> None:
        if not self._later or step.record.number not in self._later or step.record.steps < STEPS:
            return
        later = self._later.pop(step.record.number)
        silent = {
            key: known
            for key, known in later.before.items()
            if key in later.called and known[0].arrivals == known[1] and _waits(known[0].reference(), step.optimizer)
        }
        fed = any(key not in silent and self._has_gradient(key) for key in step.record.parameters)
        for place in dict.fromkeys(later.called[key] for key in silent):
            mine = [known for key, known in silent.items() if later.called[key] == place]
            fact = Silenced(step.record.number, place[0], [known.name for known, _ in mine], place[1], not fed)
            self._found.append((fact, mine))

    def _has_gradient(self, key: int) -> bool:
        known = self._parameters.get(key)
        return known is not None and bool(known.held)

    def on_judge(self) -> None:
        self._found = [(fact, mine) for fact, mine in self._found if all(known.arrivals == count for known, count in mine)]
        self._part.all = [fact for fact, _ in self._found]


def _is_new(record: OptimizerRecord) -> bool:
    return record.alive and 0 < record.steps < LOOKS


def _waits(tensor: Tensor | None, optimizer: Any) -> bool:
    """Whether a parameter could be trained and no step has had a gradient of it; it may have been cleared by writing zeros."""
    if tensor is None or not tensor.requires_grad:
        return False
    if tensor.grad is None:
        return not optimizer.state.get(tensor)
    return tensor.device.type == "cpu" and is_zero(tensor.grad)


OBSERVERS = [SilenceWatch]
