"""Curve: the loss over growing learning rates, and what can be seen in it: a level to start from, a fall, a rise, the noise.

Pure numbers: where they come from is `sweep`'s business, what they recommend that of `rules` and `recommendation`.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

SIGNIFICANT = 4.0  # standard deviations: the lowest of 100 points lies 2.5 below the mean by chance
VISIBLE = 0.01  # of the level: a smaller fall is none
RISEN = 0.25  # of the fall: so much of it is lost again where the loss counts as risen


@dataclass(frozen=True)
class Curve:
    """`losses[i]` is the loss after the update at `lrs[i]`; inf where it was not finite, and there the curve ends.

    (The loss that an update itself reports is the one before its step, so it belongs to the learning rate before.)
    """

    before: tuple[float, ...]  # losses on some batches while nothing was changed yet
    lrs: tuple[float, ...]
    losses: tuple[float, ...]
    smoothing: float = 0.6
    stop_factor: float = 3.0

    @cached_property
    def level(self) -> float:
        """Where the loss starts."""
        return statistics.median(self.before)

    @cached_property
    def ceiling(self) -> float:
        """A loss as high as this has diverged; what is higher says no more, and is cut off before smoothing.

        For a loss above 0 that is `stop_factor` times the level. Where the level is near 0 (a model that is trained already) the
        spread over batches is the scale, so that a hard batch is no divergence.
        """
        spread = statistics.pstdev(self.before)
        return self.level + (self.stop_factor - 1) * max(abs(self.level), 4 * spread)

    @cached_property
    def capped(self) -> list[float]:
        return [min(loss, self.ceiling) if math.isfinite(loss) else self.ceiling for loss in self.losses]

    @cached_property
    def smoothed(self) -> list[float]:
        return smooth(self.capped, self.smoothing)

    @cached_property
    def noise(self) -> float:
        """The standard deviation of one smoothed loss, from how much neighbours differ: a slope hardly shows in that.

        At least as much as the first losses vary: where a few batches are far harder than the rest, neighbours seldom show it.
        """
        neighbours = pairwise([*self.before, *(loss for loss in self.capped if loss < self.ceiling)])
        usual = statistics.median([abs(after - before) for before, after in neighbours])
        return max(1.4826 * usual / math.sqrt(2), statistics.pstdev(self.before)) * narrowing(self.smoothing)

    @property
    def doubt(self) -> float:
        """What differs from the level by less may be noise: that of a smoothed loss, and that of the level, a median, itself."""
        of_level = 1.25 * self.noise / narrowing(self.smoothing) / math.sqrt(len(self.before))
        return max(SIGNIFICANT * math.hypot(self.noise, of_level), VISIBLE * abs(self.level))

    @cached_property
    def lowest(self) -> int:
        """The index of the lowest smoothed loss."""
        return min(range(len(self.smoothed)), key=self.smoothed.__getitem__)

    @property
    def fall(self) -> float:
        """From the level to the lowest point."""
        return self.level - self.smoothed[self.lowest]

    @property
    def falls(self) -> bool:
        """Whether the fall is more than noise."""
        return self.fall > self.doubt

    @cached_property
    def risen(self) -> int | None:
        """The index from which the loss stays visibly above its lowest point (above the level, where it does not fall).

        It has to stay there to the end: momentum overshoots and comes back, a hard batch is over at the next one.
        """
        begin, bottom = (self.lowest, self.smoothed[self.lowest]) if self.falls else (-1, self.level)
        limit = bottom + max(RISEN * self.fall, self.doubt)
        last_below = max((i for i in range(begin + 1, len(self.smoothed)) if self.smoothed[i] <= limit), default=begin)
        return last_below + 1 if last_below + 1 < len(self.smoothed) else None

    @cached_property
    def floor(self) -> int:
        """The last index at which the loss is as low as at its lowest point, but for noise."""
        limit = self.smoothed[self.lowest] + SIGNIFICANT * self.noise
        return max(i for i, loss in enumerate(self.smoothed) if loss <= limit)


def smooth(values: Sequence[float], smoothing: float) -> list[float]:
    """Each value averaged with its neighbours on both sides, a neighbour k steps away weighing smoothing**k.

    Both sides, because an average over the past alone lags: it shows what a learning rate does under a larger one. Divided by the
    weights that there are, so the ends are not drawn to zero.
    """
    left, left_weights = _running(values, smoothing)
    right, right_weights = _running(values[::-1], smoothing)
    sums = [a + b - value for a, b, value in zip(left, reversed(right), values, strict=True)]
    weights = [a + b - 1 for a, b in zip(left_weights, reversed(right_weights), strict=True)]
    return [total / weight for total, weight in zip(sums, weights, strict=True)]


def narrowing(smoothing: float) -> float:
    """How much smoothing narrows independent noise: √Σw² / Σw for the weights w = smoothing**|k|."""
    return math.sqrt((1 + smoothing**2) / (1 - smoothing**2)) * (1 - smoothing) / (1 + smoothing)


def merged(curves: Sequence[Curve]) -> Curve:
    """The mean of several curves over the same learning rates; one that has ended stays at its ceiling."""
    longest = max(curves, key=lambda curve: len(curve.lrs))
    if len(curves) == 1:
        return longest
    columns = [[curve.capped[i] if i < len(curve.capped) else curve.ceiling for curve in curves] for i in range(len(longest.lrs))]
    before = tuple(statistics.fmean(column) for column in zip(*(curve.before for curve in curves), strict=True))
    means = tuple(statistics.fmean(column) for column in columns)
    return Curve(before, longest.lrs, means, longest.smoothing, longest.stop_factor)


def _running(values: Sequence[float], smoothing: float) -> tuple[list[float], list[float]]:
    """Σ smoothing**(i-j)·values[j] over j ≤ i, and the same for the weights alone."""
    sums, weights = [], []
    total = weight = 0.0
    for value in values:
        total = smoothing * total + value
        weight = smoothing * weight + 1.0
        sums.append(total)
        weights.append(weight)
    return sums, weights
