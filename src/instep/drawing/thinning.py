"""Thinning: fewer points of a long curve that look like all of them, with every spike that one would see."""

import math
from collections.abc import Iterable, Sequence


def thinned(values: Sequence[float | None], most: int, keep: Iterable[int] = ()) -> list[int]:
    """The places of at most about `most` values: of each stretch the lowest and the highest, and the first that is not finite.

    The first and the last place are among them, and those in `keep`.
    """
    if len(values) <= most:
        return list(range(len(values)))
    stretches = max(1, most // 2)
    chosen = {0, len(values) - 1, *keep}
    for number in range(stretches):
        chosen |= _extremes(values, len(values) * number // stretches, len(values) * (number + 1) // stretches)
    return sorted(chosen)


def _extremes(values: Sequence[float | None], start: int, stop: int) -> set[int]:
    finite: list[tuple[float, int]] = []
    broken: int | None = None
    for place, value in enumerate(values[start:stop], start):
        if value is not None and math.isfinite(value):
            finite.append((value, place))
        elif broken is None:
            broken = place
    found = set() if broken is None else {broken}
    return found | ({min(finite)[1], max(finite)[1]} if finite else set())
