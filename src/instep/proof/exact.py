"""Exact: two trainings that may differ by rounding, and by nothing else.

Judged in float64, where rounding stays small over all updates: the gradient of the first update by the bound of a split, losses
and weights after more of them by a wider one.
"""

from dataclasses import dataclass
from typing import Any

import torch

from instep.proof.record import Record, apart, gradients_apart, weights_apart
from instep.proof.split import BOUNDS, name_of
from instep.proof.subject import rounds_to

DRIFT = 1e-6  # of losses and buffers after some updates in float64: rounding grows from one to the next
DRIFT_WEIGHTS = 1e-4
DRIFT_OWN = 5e-2  # of losses where there is no float64


@dataclass(frozen=True)
class Apart:
    """How far two trainings are from each other: in the run's own precision, and in the one that is judged in."""

    shown: float  # the largest difference of a gradient of the first update, in the run's own precision
    worst: float  # the same where it is judged
    tensor: str
    losses: float
    weights: float
    buffers: dict[str, float]  # beyond rounding
    own: torch.dtype
    judged_in: torch.dtype

    @property
    def bound(self) -> float:
        return BOUNDS[self.judged_in]

    @property
    def is_beyond(self) -> bool:
        """Whether the trainings differ by more than rounding; buffers are looked at apart."""
        is_wide = self.judged_in is torch.float64
        limit = DRIFT if is_wide else DRIFT_OWN
        return not self.worst <= self.bound or not self.losses <= limit or (is_wide and self.weights > DRIFT_WEIGHTS)

    @property
    def measured(self) -> dict[str, Any]:
        """What a row keeps of it."""
        return {"measured": {name_of(self.own): self.shown, name_of(self.judged_in): self.worst}, "bound": self.bound}

    def __str__(self) -> str:
        return f"{rounds_to(self.worst)} in {name_of(self.judged_in)}, bound {rounds_to(self.bound)}"


def measure_apart(one: list[Record], other: list[Record], own: torch.dtype) -> Apart:
    """Of two trainings, each recorded in its own precision and, where that is possible, in float64."""
    is_wide = len(one) > 1 and len(other) > 1
    mine, theirs = (one[-1], other[-1]) if is_wide else (one[0], other[0])
    worst, tensor = gradients_apart(mine.first_gradients, theirs.first_gradients)
    return Apart(
        gradients_apart(one[0].first_gradients, other[0].first_gradients)[0],
        worst,
        tensor,
        _losses_apart(mine, theirs),
        weights_apart(mine.state, theirs.state),
        _buffers_apart(mine, theirs),
        own,
        torch.float64 if is_wide else own,
    )


def _losses_apart(one: Record, other: Record) -> float:
    pairs = zip(one.steps, other.steps, strict=False)
    gaps = [abs(a.losses[name] - b.losses[name]) / (abs(a.losses[name]) or 1.0) for a, b in pairs for name in a.losses]
    return max(gaps, default=0.0)


def _buffers_apart(one: Record, other: Record) -> dict[str, float]:
    """The buffers that differ by more than rounding, and by how much."""
    held = {name.partition("/")[2]: value for name, value in one.state.items() if name.startswith("buffers/")}
    gaps = {name: apart(value, other.state.get(f"buffers/{name}")) for name, value in held.items() if _is_real(value)}
    return {name: gap for name, gap in gaps.items() if gap > DRIFT}


def _is_real(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and not value.is_complex()
