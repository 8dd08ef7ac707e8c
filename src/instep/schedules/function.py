"""A plain function of position as a schedule."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from instep.errors import DescriptionError
from instep.schedules.schedule import Curve, Group, Schedule


@dataclass(frozen=True)
class FromFunction(Schedule):
    """`f(position)` gives the learning rate of the first group; the other groups keep their ratios to it.

    `drive` makes one of any function with one parameter: `schedule=lambda position: 0.1 / (1 + position)`. It is called while
    the run is planned too, so the position is all that it may depend on.
    """

    f: Callable[[int], float]

    def bases(self, starts: Sequence[float]) -> Sequence[float]:
        """The ratio of each group's learning rate to the first group's."""
        first = starts[0]
        if not first and any(starts):
            raise DescriptionError(
                f"the groups' learning rates {list(starts)} have no ratios to the first, 0, and schedule= gives the first's; "
                "give the first group an lr above 0."
            )
        return [start / first if first else 1.0 for start in starts]

    def curve(self, total: int, base: float) -> Curve:
        """What the function gives, times `base`; raises unless that is a learning rate at the first, middle and last position."""
        for position in (0, total // 2, total - 1):
            self._check_at(position, total)
        f = self.f
        return lambda position: float(f(position)) * base

    def notes(self, groups: Sequence[Group], total: int) -> list[str]:
        """Nothing: what the groups started from matters for their ratios only."""
        return []

    def _check_at(self, position: int, total: int) -> None:
        try:
            value = float(self.f(position))
        except Exception as error:
            raise DescriptionError(
                f"schedule= is a function with one parameter, so it was asked for the learning rate at position {position}, "
                f"and it raised {type(error).__name__}: {error}. To build one of torch's schedulers it needs two parameters: "
                "lambda optimizer, total_steps: …"
            ) from error
        if not 0 <= value < math.inf:
            raise DescriptionError(
                f"schedule= gave {value} for position {position} of {total}; a learning rate is 0 or a number above it."
            )
