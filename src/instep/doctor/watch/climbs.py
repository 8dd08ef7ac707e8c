"""Parameters that are moved up along their gradient, as an attack on weights or embeddings does, and are not put back.

Such a move is right where it is undone, before the optimizer's step or after it. It counts where the step began from it and
nothing has been moved between that step and the next forward or backward.
"""

import weakref
from typing import Any

import torch
from torch import Tensor

from instep.doctor.hub import Hub
from instep.doctor.patches import Called
from instep.doctor.records import record_class
from instep.doctor.shards import is_sharded
from instep.doctor.trace import Trace
from instep.doctor.watch.backwards import Backward
from instep.doctor.watch.calls import Call
from instep.doctor.watch.gradients import Gradients
from instep.doctor.watch.moves import EVERY, FIRST, Moves, Written
from instep.doctor.watch.optimizers import Step
from instep.doctor.watch.phases import Phases

TENSORS = 24
SEARCHED = 4096  # elements among which those with the largest gradients are chosen: of a table, most rows have none
CHOSEN = 16


@record_class
class Climber:
    """A parameter, a few of its elements, and what they were."""

    tensor: "weakref.ref[Tensor]"
    places: Tensor
    start: Tensor  # before anything was moved, since the last step
    now: Tensor  # at the last backward
    slope: Tensor
    top: Tensor | None = None  # after it was moved up


class ClimbWatch:
    """Adds "kept" to `Moves.written`."""

    def __init__(self, trace: Trace, hub: Hub) -> None:
        self._trace, self._part, self._phases = trace, trace.part(Moves), trace.part(Phases)
        self._parameters = trace.part(Gradients).parameters
        self._climbers: dict[int, Climber] = {}
        self._stepped: list[tuple[Climber, Tensor]] = []  # that a step has begun from, and what they were after it
        self._site: str | None = None
        self._looked = False  # at the last step

    def on_rest(self) -> None:
        self._climbers, self._stepped, self._looked = {}, [], False

    def after_backward(self, _: Called) -> None:
        steps = self._trace.steps
        if not 1 <= steps - self._phases.step <= FIRST and steps % EVERY:
            return
        held = [parameter.reference() for parameter in list(self._parameters.values())[:64] if parameter.optimizers]
        for tensor in [each for each in held if each is not None and _is_plain(each)][:TENSORS]:
            self._note(tensor)

    def _note(self, tensor: Tensor) -> None:
        known, slope = self._climbers.get(id(tensor)), _flat(tensor.grad)
        if known is not None and known.tensor() is tensor:
            known.now, known.slope = _flat(tensor)[known.places], slope[known.places].clone()
            return
        places = _largest(slope)
        values = _flat(tensor)[places]
        self._climbers[id(tensor)] = Climber(weakref.ref(tensor), places, values, values, slope[places])

    def after_call(self, call: Call) -> None:
        if call.grad and call.root.parameters:
            self._end()
            self._look(call.site)

    def on_backward(self, backward: Backward, _: Tensor) -> None:
        self._end()

    def _look(self, site: str | None) -> None:
        """Whether anything has gone up since the last backward."""
        for climber in self._climbers.values():
            tensor = climber.tensor()
            if tensor is None:
                continue
            values = _flat(tensor)[climber.places]
            if _went_up(values - climber.now, climber.slope):
                climber.top, self._site = values, site

    def before_step(self, step: Step) -> None:
        self._look(step.site)
        self._stepped, self._looked = [], bool(self._climbers) and not step.closure and not step.inside
        for climber in self._climbers.values():
            tensor = climber.tensor()
            if tensor is not None and climber.top is not None and torch.equal(_flat(tensor)[climber.places], climber.top):
                self._stepped.append((climber, climber.top))

    def after_step(self, _: Step) -> None:
        self._climbers = {}
        self._stepped = [
            (climber, _flat(tensor)[climber.places]) for climber, _ in self._stepped if (tensor := climber.tensor()) is not None
        ]

    def _end(self) -> None:
        """The next forward or backward: what was moved since the step has been put back, perhaps."""
        if not self._looked:
            return
        stepped, self._stepped, self._looked = self._stepped, [], False
        self._part.looks["kept"] = self._part.looks.get("kept", 0) + 1
        for climber, values in stepped:
            tensor = climber.tensor()
            if tensor is not None and torch.equal(_flat(tensor)[climber.places], values):
                self._count(tensor)
                return

    def _count(self, tensor: Tensor) -> None:
        fact = self._part.written.get("kept")
        if fact is None:
            known = self._parameters.get(id(tensor))
            name = known.name if known is not None else ""
            fact = self._part.written["kept"] = Written("kept", self._site, name, self._trace.steps - 1)
        fact.times += 1


def _is_plain(tensor: Tensor) -> bool:
    grad = tensor.grad
    if grad is None or grad.layout is not torch.strided or grad.shape != tensor.shape or tensor.is_shared() or is_sharded(tensor):
        return False
    return tensor.requires_grad and tensor.device.type == "cpu" and tensor.is_floating_point() and tensor.numel() >= CHOSEN


def _flat(tensor: Any) -> Tensor:
    flat: Tensor = tensor.detach().reshape(-1)
    return flat


def _largest(slope: Tensor) -> Tensor:
    every = max(1, slope.numel() // SEARCHED)
    return slope[::every].abs().topk(CHOSEN).indices * every


def _went_up(moved: Tensor, slope: Tensor) -> bool:
    """Whether all went up along the gradient: at one rate, or by one length."""
    if not bool((moved * slope > 0).all()):
        return False
    rates, lengths = moved / slope, moved.abs()
    return any(float(each.std()) <= 0.02 * float(each.mean()) for each in (rates.double(), lengths.double()))


OBSERVERS: list[Any] = [ClimbWatch]
