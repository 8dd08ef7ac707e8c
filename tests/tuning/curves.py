"""Curves to be read by eye: a learning rate ten times the last at each point."""

from collections.abc import Sequence

from instep.tuning.curve import Curve


def curve(losses: Sequence[float], *, before: Sequence[float] = (2.0,) * 9, first: float = 1e-6, smoothing: float = 0.0) -> Curve:
    """From a level of 2, without noise and without smoothing unless that is asked for."""
    lrs = tuple(first * 10.0**i for i in range(len(losses)))
    return Curve(tuple(before), lrs, tuple(losses), smoothing=smoothing)


# lr          1e-6  1e-5  1e-4  1e-3  0.01   0.1   1    10
TYPICAL = curve([2.0, 2.0, 1.8, 1.2, 0.4, 0.2, 0.3, 4.0])
