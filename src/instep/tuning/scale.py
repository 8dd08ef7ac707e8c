"""Scale: which part of a curve is shown."""

from instep.tuning.curve import Curve

ABOVE = 0.35  # of the fall is shown above the level; a divergence goes on outside
LEAST = 0.1  # of the level is shown below it: what is flat should look flat


def shown_range(curve: Curve) -> tuple[float, float]:
    """From the lowest smoothed loss to a little above the level."""
    low = min(*curve.smoothed, curve.level - LEAST * abs(curve.level))
    return low, curve.level + ABOVE * (curve.level - low)
