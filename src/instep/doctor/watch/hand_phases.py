"""Updates by hand in a later phase: after steps of an optimizer, weights move from backward to backward without any.

They go down along the gradient that is there: not where somebody shakes the weights for each micro-batch.
"""

from dataclasses import field
from typing import Any

from torch import Tensor

from instep.doctor.hub import Hub
from instep.doctor.patches import Called
from instep.doctor.records import part_class
from instep.doctor.trace import Trace
from instep.doctor.watch.backwards import Backward
from instep.doctor.watch.gradients import Gradients, Parameter, is_as_left, some_values

LOOKED_AT = 64  # backwards
DOWN = -0.5  # cosine of what was moved and of the gradient, below which it went down


@part_class
class HandPhase:
    """The part of the trace about them: the last stretch of backwards without a step in which the weights moved."""

    name: str = ""  # of the parameter that was looked at
    looked: int = 0  # backwards before which it was looked at
    moved: int = 0  # of those: it had moved since the last, down along its gradient
    grown: int = 0  # of those: it had moved, and its gradient still held all that it had held before, as it was
    held: int = 0  # backwards that its gradient held at the last look
    first_step: int = 0
    sites: dict[str | None, int] = field(default_factory=dict)  # of the backwards


class HandPhaseWatch:
    """Fills `HandPhase`."""

    def __init__(self, trace: Trace, hub: Hub) -> None:
        self._trace, self._part, self._gradients = trace, trace.part(HandPhase), trace.part(Gradients)
        self._steps = -1
        self._probe: Parameter | None = None
        self._weights: Tensor | None = None
        self._left: Tensor | None = None  # of its gradient, as the last backward has left it
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
            self._weights = some_values(self._probe.reference()) if self._probe is not None else None
            return
        tensor = self._probe.reference()
        weights, grad = some_values(tensor), some_values(tensor.grad) if tensor is not None else None
        if now.looked >= LOOKED_AT or weights is None or self._weights is None or weights.shape != self._weights.shape:
            return
        moved, held = grad is not None and _goes_down(weights - self._weights, grad), len(self._probe.held)
        now.looked += 1
        now.moved += moved
        now.grown += moved and held > max(now.held, 1) and is_as_left(grad, self._left)
        now.sites[backward.site] = now.sites.get(backward.site, 0) + 1
        now.name, now.held, self._weights = self._probe.name, held, weights
        if now.grown > self._part.grown:
            for name, value in vars(now).items():
                setattr(self._part, name, value)

    def after_backward(self, _: Called) -> None:
        tensor = self._probe.reference() if self._probe is not None and self._now.looked < LOOKED_AT else None
        self._left = some_values(tensor.grad) if tensor is not None else None

    def _chosen(self) -> Parameter | None:
        """The last one on the CPU that has a gradient: of the first, an embedding, most rows stay where they are."""
        known = [each for each in self._gradients.parameters.values() if each.device == "cpu" and each.held and each.numel >= 8]
        return known[-1] if known else None


def _goes_down(moved: Tensor, grad: Tensor) -> bool:
    size = float(moved.norm() * grad.norm()) if moved.shape == grad.shape else 0.0
    return size > 0 and float(moved.dot(grad)) < DOWN * size


OBSERVERS: list[Any] = [HandPhaseWatch]
