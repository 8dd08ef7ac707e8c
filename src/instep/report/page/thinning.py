"""Thinning: fewer points of a long curve that look like all of them, with every spike that one would see."""

import math
from collections.abc import Collection, Sequence
from typing import NamedTuple


class Point(NamedTuple):
    """A value at a step; None where there was none to give."""

    step: int
    value: float | None


def thinned(points: Sequence[Point], most: int, keep: Collection[int] = ()) -> list[Point]:
    """At most about `most` points: of each stretch the lowest and the highest, and the first that is not finite.

    The first and the last point are kept, and those at the steps in `keep`.
    """
    if len(points) <= most:
        return list(points)
    stretches = max(1, most // 2)
    chosen = {0, len(points) - 1}
    chosen.update(place for place, point in enumerate(points) if point.step in keep)
    for number in range(stretches):
        chosen.update(_extremes(points, len(points) * number // stretches, len(points) * (number + 1) // stretches))
    return [points[place] for place in sorted(chosen)]


def _extremes(points: Sequence[Point], start: int, stop: int) -> set[int]:
    finite: list[tuple[float, int]] = []
    broken: int | None = None
    for place in range(start, stop):
        value = points[place].value
        if value is not None and math.isfinite(value):
            finite.append((value, place))
        elif broken is None:
            broken = place
    found = set() if broken is None else {broken}
    return found | ({min(finite)[1], max(finite)[1]} if finite else set())
