"""The rules: what different people read off the same curve, each as a pure function of it.

All are drawn; which one to follow is `recommendation`'s business.
"""

import math
from collections.abc import Callable, Mapping

from instep.tuning.curve import Curve

Rule = Callable[[Curve], float | None]

MARGIN = 3.0  # below the learning rate where the loss has risen
FLOOR_MARGIN = 1.5  # below the last learning rate where the loss is at its lowest
BEGUN = 0.1  # of the fall: so much is made where the valley begins


def steepest(curve: Curve) -> float | None:
    """Where the smoothed loss falls fastest over the logarithm of the learning rate."""
    if not curve.falls:
        return None
    slopes = [slope(curve, i) for i in range(curve.lowest + 1)]
    return curve.lrs[min(range(len(slopes)), key=slopes.__getitem__)]


def valley(curve: Curve) -> float | None:
    """Two thirds of the way, in log lr, from where the last fall begins to its lowest point."""
    if not curve.falls:
        return None
    high = curve.level - BEGUN * curve.fall
    begin = next((i for i in range(curve.lowest, -1, -1) if curve.smoothed[i] > high), 0)
    return math.exp(math.log(curve.lrs[begin]) / 3 + math.log(curve.lrs[curve.lowest]) * 2 / 3)


def minimum_tenth(curve: Curve) -> float | None:
    """A tenth of the learning rate with the lowest smoothed loss."""
    return curve.lrs[curve.lowest] / 10 if curve.falls else None


def before_divergence(curve: Curve) -> float | None:
    """A third of the learning rate from which on the smoothed loss has risen; at most two thirds of the last where it is lowest.

    Without noise a loss can fall to almost nothing, and takes a while to show that it grows again: on a quadratic with largest
    curvature λ, which diverges at 2/λ, up to 3.7 times that.
    """
    if curve.risen is None:
        return None
    limit = curve.lrs[curve.risen] / MARGIN
    return min(limit, curve.lrs[curve.floor] / FLOOR_MARGIN) if curve.falls else limit


RULES: Mapping[str, Rule] = {
    "before divergence": before_divergence,
    "steepest": steepest,
    "valley": valley,
    "minimum / 10": minimum_tenth,
}


def slope(curve: Curve, i: int) -> float:
    """d loss / d ln lr at a point, by the neighbours on both sides where there are two."""
    left, right = max(i - 1, 0), min(i + 1, len(curve.lrs) - 1)
    if left == right:
        return 0.0
    return (curve.smoothed[right] - curve.smoothed[left]) / math.log(curve.lrs[right] / curve.lrs[left])
