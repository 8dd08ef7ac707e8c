"""Schedules without a warm-up: steps down, a steady decay, and a cosine that starts again.

All of them multiply each group's own starting learning rate, so groups keep their ratios.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from instep.errors import DescriptionError
from instep.schedules.schedule import Curve, Schedule
from instep.schedules.span import Span, check_span, in_updates, said
from instep.schedules.warmup import cosine


@dataclass(frozen=True)
class Step(Schedule):
    """Times `factor` after each `every` updates, or at each of the `milestones`.

        Trainer(model, …, schedule=Step(milestones=(0.5, 0.75)))

    `every` and milestones are numbers of updates, or shares of the run where they are floats below 1.

    >>> curve = Step(every=2, factor=0.5).curve(total=6, base=0.8)
    >>> [curve(position) for position in range(6)]
    [0.8, 0.8, 0.4, 0.4, 0.2, 0.2]
    """

    every: Span | None = None
    factor: float = 0.1
    milestones: Sequence[Span] | None = None

    def __post_init__(self) -> None:
        if (self.every is None) == (self.milestones is None):
            raise DescriptionError(
                f"Step got every={self.every} and milestones={self.milestones}; give one of them: "
                "Step(every=1000), or Step(milestones=(0.5, 0.75))."
            )
        _check_repeated(self.factor)
        if self.every is not None:
            check_span("every", self.every, least=1)
        if self.milestones is not None:
            object.__setattr__(self, "milestones", tuple(self.milestones))  # nobody can change it any more
            for milestone in self.milestones:
                check_span("milestone", milestone, least=1)

    def curve(self, total: int, base: float) -> Curve:
        """The learning rate by position, for a group that starts with `base`."""
        factor = self.factor
        if self.every is not None:
            every = _at_least_one("every", self.every, total)
            return lambda position: base * factor ** (position // every)
        places = [in_updates(milestone, total) for milestone in self.milestones or ()]
        return lambda position: base * factor ** len([place for place in places if place <= position])


@dataclass(frozen=True)
class Exponential(Schedule):
    """Times `factor` after every update, or half as much after each `half_life`.

        Trainer(model, …, schedule=Exponential(half_life=0.2))

    `half_life` is a number of updates, or a share of the run where it is a float below 1.

    >>> curve = Exponential(half_life=2).curve(total=6, base=0.8)
    >>> [round(curve(position), 2) for position in range(5)]
    [0.8, 0.57, 0.4, 0.28, 0.2]
    """

    factor: float | None = None
    half_life: Span | None = None

    def __post_init__(self) -> None:
        if (self.factor is None) == (self.half_life is None):
            raise DescriptionError(
                f"Exponential got factor={self.factor} and half_life={self.half_life}; give one of them: "
                "Exponential(factor=0.999), or Exponential(half_life=0.2)."
            )
        if self.factor is not None:
            _check_repeated(self.factor)
        if self.half_life is not None:
            check_span("half_life", self.half_life, least=1)

    def curve(self, total: int, base: float) -> Curve:
        """The learning rate by position, for a group that starts with `base`."""
        if self.half_life is None:
            factor = self.factor or 1.0
            return lambda position: base * factor**position
        half_life = self.half_life if isinstance(self.half_life, int) else self.half_life * total  # no need for whole updates
        return lambda position: base * math.pow(0.5, position / half_life)


@dataclass(frozen=True)
class WarmRestarts(Schedule):
    """Half a cosine down to `final` of the starting learning rate, again and again, each `multiply` times as long as the last.

        Trainer(model, …, schedule=WarmRestarts(first=1000, multiply=2))

    `first` is a number of updates, or a share of the run where it is a float below 1.

    >>> curve = WarmRestarts(first=4).curve(total=8, base=1.0)
    >>> [round(curve(position), 2) for position in range(8)]
    [1.0, 0.85, 0.5, 0.15, 1.0, 0.85, 0.5, 0.15]
    """

    first: Span
    multiply: int = 1
    final: float = 0.0

    def __post_init__(self) -> None:
        check_span("first", self.first, least=1)
        if not isinstance(self.multiply, int) or self.multiply < 1:
            raise DescriptionError(f"multiply={self.multiply} cannot lengthen a cosine; use a whole number from 1 on.")
        if not 0 <= self.final < 1:
            raise DescriptionError(f"final={self.final} is not below the start, 1; use a share from 0 to below 1.")

    def curve(self, total: int, base: float) -> Curve:
        """The learning rate by position, for a group that starts with `base`."""
        first, multiply = _at_least_one("first", self.first, total), self.multiply
        low = base * self.final

        def at(position: int) -> float:
            gone, length = since_restart(position, first, multiply)
            return low + (base - low) * cosine(gone / length)

        return at


def since_restart(position: int, first: int, multiply: int) -> tuple[int, int]:
    """How many updates ago the last restart was, and how many updates this cosine lasts."""
    if multiply == 1:
        return position % first, first
    length = first
    while position >= length:
        position -= length
        length *= multiply
    return position, length


def _check_repeated(factor: float) -> None:
    if not 0 < factor < math.inf:
        raise DescriptionError(f"factor={factor} cannot be multiplied with again and again; use a number between 0 and 1.")


def _at_least_one(name: str, span: Span, total: int) -> int:
    updates = in_updates(span, total)
    if not updates:
        raise DescriptionError(
            f"{said(name, span, total)} is less than one update in a run of {total}; use a larger share, or {name}=1."
        )
    return updates
