"""Updates by hand in a later phase: after steps of an optimizer, weights move from backward to backward without any."""

from dataclasses import field
from typing import Any

from torch import Tensor

from instep.doctor.hub import Hub
from instep.doctor.records import part_class
from instep.doctor.trace import Trace
from instep.doctor.watch.backwards import Backward
from instep.doctor.watch.gradients import Gradients, Parameter, beginning

LOOKED_AT = 64  # backwards


@part_class
class HandPhase:
    """The part of the trace about them: the last stretch of backwards without a step in which the weights moved."""

    name: str = ""  # of the parameter that was looked at
    looked: int = 0  # backwards before which it was looked at
    moved: int = 0  # of those: it had moved since the last
    grown: int = 0  # of those: it had moved, and its gradient still held all that it had held before
    held: int = 0  # backwards that its gradient held at the last look
    first_step: int = 0
    sites: dict[str | None, int] = field(default_factory=dict)  # of the backwards


class HandPhaseWatch:
    """Fills `HandPhase`."""

    def __init__(self, trace: Trace, hub: Hub) -> None:
        self._trace, self._part, self._gradients = trace, trace.part(HandPhase), trace.part(Gradients)
        self._steps = -1
        self._probe: Parameter | None = None
        self._weights: list[float] = []
        self._now = HandPhase()

    def on_wake(self) -> None:
        self._steps = -1

    def on_backward(self, backward: Backward, _: Tensor) -> None:
        steps, now = self._trace.steps, self._now
        if not steps or steps != self._steps:
            self._steps, self._probe, self._now = steps, None, HandPhase()
            self._now.first_step = steps
            return
        if self._probe is None:
            self._probe = self._chosen()
            self._weights = beginning(self._probe) if self._probe is not None else []
            return
        if now.looked >= LOOKED_AT:
            return
        weights = beginning(self._probe)
        moved, held = weights != self._weights, len(self._probe.held)
        now.looked += 1
        now.moved += moved
        now.grown += moved and held > max(now.held, 1)
        now.sites[backward.site] = now.sites.get(backward.site, 0) + 1
        now.name, now.held, self._weights = self._probe.name, held, weights
        if now.grown > self._part.grown:
            for name, value in vars(now).items():
                setattr(self._part, name, value)

    def _chosen(self) -> Parameter | None:
        """The last one on the CPU that has a gradient: of the first, an embedding, most rows stay where they are."""
        *_, chosen = None, *(each for each in self._gradients.parameters.values() if each.device == "cpu" and each.held)
        return chosen


OBSERVERS: list[Any] = [HandPhaseWatch]
