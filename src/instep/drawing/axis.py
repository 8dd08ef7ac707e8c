"""Axis: where a value lies between two ends, and round numbers to label it with."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

CLOSE = 1e-9  # a power of ten that is this close to an end counts as inside


@dataclass(frozen=True)
class Axis:
    """From the lowest to the highest value, by their logarithms where `log` is set."""

    low: float
    high: float
    log: bool = False

    @classmethod
    def over(cls, values: Sequence[float], *, log: bool = False, air: float = 0.0) -> "Axis":
        """All values, with a share of their range as air on both sides; from 0 to 1 (or 1 to 10) where there are none."""
        low, high = (min(values), max(values)) if values else (1.0, 10.0) if log else (0.0, 1.0)
        if log:
            wider = (high / low) ** air
            return cls(low / wider, high * wider, log=True)
        return cls(low - air * (high - low), high + air * (high - low))

    def share(self, value: float) -> float:
        """0 at the low end and 1 at the high one; what lies outside is at the edge."""
        low, high, at = (math.log(each) for each in (self.low, self.high, value)) if self.log else (self.low, self.high, value)
        return min(max((at - low) / (high - low), 0.0), 1.0) if high > low else 0.5

    def ticks(self, count: int = 5) -> list[float]:
        """About so many round numbers; on a logarithmic axis the powers of ten, where there are two."""
        powers = decades(self.low, self.high) if self.log else []
        if len(powers) >= 2:
            return powers[:: math.ceil(len(powers) / (2 * count))]
        return round_ticks(self.low, self.high, count)


def decades(low: float, high: float) -> list[float]:
    """The powers of ten from low to high."""
    return [10.0**power for power in range(math.ceil(math.log10(low) - CLOSE), math.floor(math.log10(high) + CLOSE) + 1)]


def round_ticks(low: float, high: float, count: int = 5) -> list[float]:
    """About `count` round numbers from low to high: multiples of 1, 2 or 5 times a power of ten."""
    if not high > low:
        return [low]
    rough = (high - low) / count
    power = 10.0 ** math.floor(math.log10(rough))
    unit = next(multiple * power for multiple in (1, 2, 5, 10) if multiple * power >= rough)
    return [index * unit for index in range(math.ceil(low / unit), math.floor(high / unit) + 1)]


def labels(ticks: Sequence[float]) -> list[str]:
    """The ticks in words, with as many digits each: 0.05, 0.10; 20,000. Powers of ten as they are: 1e-05, 0.1, 1."""
    short = [f"{tick:g}" for tick in ticks]
    if any("e" in text for text in short) or _are_powers(ticks):
        return short
    digits = max(len(text.partition(".")[2]) for text in short)
    return [f"{tick:,.{digits}f}" for tick in ticks]


def _are_powers(ticks: Sequence[float]) -> bool:
    """Whether each is many times the one before."""
    return len(ticks) > 1 and ticks[0] > 0 and ticks[1] > 9 * ticks[0]
