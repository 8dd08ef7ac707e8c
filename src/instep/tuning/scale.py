"""Scale: which part of a curve is shown, and round numbers to label it with."""

import math

from instep.tuning.curve import Curve

ABOVE = 0.35  # of the fall is shown above the level; a divergence goes on outside
LEAST = 0.1  # of the level is shown below it: what is flat should look flat


def shown_range(curve: Curve) -> tuple[float, float]:
    """From the lowest smoothed loss to a little above the level."""
    low = min(*curve.smoothed, curve.level - LEAST * abs(curve.level))
    return low, curve.level + ABOVE * (curve.level - low)


def round_ticks(low: float, high: float, count: int = 5) -> list[float]:
    """About `count` round numbers from low to high: multiples of 1, 2 or 5 times a power of ten."""
    if not high > low:
        return [low]
    rough = (high - low) / count
    power = 10.0 ** math.floor(math.log10(rough))
    unit = next(multiple * power for multiple in (1, 2, 5, 10) if multiple * power >= rough)
    return [index * unit for index in range(math.ceil(low / unit), math.floor(high / unit) + 1)]
