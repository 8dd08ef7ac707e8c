"""Schedules that warm up: a straight rise, then a cosine, a straight line, or a level stretch with a decay at the end.

With W updates of warm-up the one at position p has (p + 1) / (W + 1) of the rate, so the first is not at 0, where it would change
nothing, and the one at position W is the first with all of it. What falls would reach its final value at position `total`, one
past the last, for the same reason. All of them multiply each group's own starting learning rate, so groups keep their ratios.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from instep.errors import DescriptionError
from instep.schedules.schedule import Curve, Schedule
from instep.schedules.span import Span, check_span, in_updates, said

Fall = Literal["linear", "cos", "sqrt"]


@dataclass(frozen=True)
class WarmupCosine(Schedule):
    """A straight rise, then half a cosine down to `final` times the starting learning rate.

        Trainer(model, …, schedule=WarmupCosine(warmup=0.1))

    `warmup` is a number of updates, or a share of the run where it is a float below 1.

    >>> curve = WarmupCosine(warmup=3).curve(total=7, base=1.0)
    >>> [round(curve(position), 2) for position in range(7)]
    [0.25, 0.5, 0.75, 1.0, 0.85, 0.5, 0.15]
    """

    warmup: Span = 0
    final: float = 0.0

    def __post_init__(self) -> None:
        check_span("warmup", self.warmup)
        _check_factor("final", self.final)

    def curve(self, total: int, base: float) -> Curve:
        """The learning rate by position, for a group that starts with `base`."""
        warmup = _warmup_in_updates(self.warmup, total)
        return warmed(base, warmup, falling(base, base * self.final, warmup, total - warmup, cosine))


@dataclass(frozen=True)
class Linear(Schedule):
    """A straight line from `start` to `end`, both times the starting learning rate, after a warm-up to `start`.

        Trainer(model, …, schedule=Linear(warmup=100))

    `warmup` is a number of updates, or a share of the run where it is a float below 1.

    >>> curve = Linear(warmup=1).curve(total=5, base=1.0)
    >>> [curve(position) for position in range(5)]
    [0.5, 1.0, 0.75, 0.5, 0.25]
    """

    start: float = 1.0
    end: float = 0.0
    warmup: Span = 0

    def __post_init__(self) -> None:
        check_span("warmup", self.warmup)
        _check_factor("start", self.start)
        _check_factor("end", self.end)
        if self.start == self.end == 0:
            raise DescriptionError("start=0 and end=0 leave no learning rate; use start=1.0, end=0.0 for a line down to 0.")

    def curve(self, total: int, base: float) -> Curve:
        """The learning rate by position, for a group that starts with `base`."""
        warmup = _warmup_in_updates(self.warmup, total)
        high = base * self.start
        return warmed(high, warmup, falling(high, base * self.end, warmup, total - warmup, line))


@dataclass(frozen=True)
class WSD(Schedule):
    """Warm-up, stable, decay: a straight rise, the full learning rate, and a fall to `final` of it over the last `decay` updates.

        Trainer(model, …, schedule=WSD(warmup=100, decay=0.2))

    `warmup` and `decay` are numbers of updates, or shares of the run where they are floats below 1. `fall` is the shape of the
    decay: "linear", "cos", or "sqrt" (1 − √ of what has gone by, which falls fast first).

    >>> curve = WSD(warmup=1, decay=4).curve(total=8, base=1.0)
    >>> [curve(position) for position in range(8)]
    [0.5, 1.0, 1.0, 1.0, 1.0, 0.75, 0.5, 0.25]
    """

    warmup: Span
    decay: Span
    final: float = 0.0
    fall: Fall = "linear"

    def __post_init__(self) -> None:
        check_span("warmup", self.warmup)
        check_span("decay", self.decay)
        _check_factor("final", self.final)
        if self.fall not in FALLS:
            raise DescriptionError(f'fall={self.fall!r} is not known; use "linear", "cos" or "sqrt".')

    def curve(self, total: int, base: float) -> Curve:
        """The learning rate by position, for a group that starts with `base`."""
        warmup, decay = _warmup_in_updates(self.warmup, total), in_updates(self.decay, total)
        if warmup + decay > total:
            raise DescriptionError(
                f"{said('warmup', self.warmup, total)} and {said('decay', self.decay, total)} are longer than the run of "
                f"{total} updates; use shorter ones, or shares such as warmup=0.1, decay=0.2."
            )
        if not decay:
            return warmed(base, warmup, lambda position: base)
        return warmed(base, warmup, falling(base, base * self.final, total - decay, decay, FALLS[self.fall]))


def warmed(high: float, warmup: int, after: Curve) -> Curve:
    """A straight rise to `high` over the first `warmup` updates, then the other curve."""
    if not warmup:
        return after
    steps = warmup + 1
    return lambda position: high * ((position + 1) / steps) if position < warmup else after(position)


def falling(high: float, low: float, begin: int, length: int, fall: Callable[[float], float]) -> Curve:
    """`high` until position `begin`, and from there to `low` within `length` updates; then it stays."""
    end, depth = begin + length, high - low

    def at(position: int) -> float:
        if position <= begin:
            return high
        return low + depth * fall((position - begin) / length) if position < end else low

    return at


def cosine(gone: float) -> float:
    """Half a cosine, from 1 to 0 as `gone` goes from 0 to 1."""
    return (1 + math.cos(math.pi * gone)) / 2


def line(gone: float) -> float:
    """A straight line from 1 to 0 as `gone` goes from 0 to 1."""
    return 1 - gone


def root(gone: float) -> float:
    """1 − √gone, from 1 to 0 as `gone` goes from 0 to 1."""
    return 1 - math.sqrt(gone)


FALLS: Mapping[Fall, Callable[[float], float]] = {"linear": line, "cos": cosine, "sqrt": root}


def _check_factor(name: str, factor: float) -> None:
    if not 0 <= factor < math.inf:
        raise DescriptionError(f"{name}={factor} cannot multiply a learning rate; use 0 or a number above it.")


def _warmup_in_updates(warmup: Span, total: int) -> int:
    updates = in_updates(warmup, total)
    if updates >= total:
        raise DescriptionError(
            f"{said('warmup', warmup, total)} leaves nothing of the run of {total} updates; "
            "use fewer, or a share such as warmup=0.1."
        )
    return updates
