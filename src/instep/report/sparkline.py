"""A curve in one line of text."""

import math
from collections.abc import Sequence
from itertools import pairwise

BARS = "▁▂▃▄▅▆▇█"
BROKEN = "×"  # an inf or a nan is somewhere in here


def sparkline(values: Sequence[float], width: int) -> str:
    """The values from lowest to highest bar; where there are more than `width`, each bar is the mean of its stretch."""
    bars = [_mean(stretch) for stretch in _stretches(values, width)]
    finite = [bar for bar in bars if math.isfinite(bar)]
    low, high = min(finite, default=0.0), max(finite, default=0.0)
    return "".join(_bar(bar, low, high) for bar in bars)


def _stretches(values: Sequence[float], width: int) -> list[Sequence[float]]:
    count = min(width, len(values))
    cuts = [len(values) * index // count for index in range(count + 1)] if count > 0 else [0]
    return [values[start:end] for start, end in pairwise(cuts)]


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values) if all(map(math.isfinite, values)) else math.nan


def _bar(value: float, low: float, high: float) -> str:
    if not math.isfinite(value):
        return BROKEN
    if high == low:
        return BARS[len(BARS) // 2]
    return BARS[min(len(BARS) - 1, int((value - low) / (high - low) * len(BARS)))]
