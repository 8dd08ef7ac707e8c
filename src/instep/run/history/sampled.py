"""Some rows of a long history, for who shows it: of each stretch the extremes of every column."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

from instep.run.history.cut import Cutter, Names, split_places
from instep.run.history.lines import NO_COLUMNS, Lines

_LOOKED_AT = 40  # rows that tell how many columns there are
_SMOOTH = NO_COLUMNS | {"step", "epoch", "lr", "momentum"}  # functions of the position, in which there are no spikes

Columns = tuple[Sequence[int], Iterable[Sequence[Any]]]  # places of rows, and their values by column


def some_places(lines: Lines, most: int) -> Sequence[int]:
    """The places of about `most` rows, in order; the log and the other rows are thinned each for itself.

    Of each stretch those with the lowest and the highest value of a column stay, the first of equals, and the first that is not
    finite. So do the first and the last row of the log with each set of columns, the last evaluations and all
    cycles. `most=0` gives all rows but those of the log, and the first and the last.
    """
    if len(lines) <= most:
        return range(len(lines))
    if not most:
        return sorted({*lines.others, 0, len(lines) - 1}) if len(lines) else []
    log, others = split_places(lines, range(len(lines)))
    cutter = Cutter(lines, lambda name: name not in _SMOOTH)
    ends: dict[Names, tuple[int, int]] = {}

    def cut(places: Sequence[int]) -> Iterator[Columns]:
        for piece in cutter.cut(places):
            ends[piece.names] = (ends.get(piece.names, piece.places)[0], piece.places[-1])
            yield piece.places, piece.values.values()

    def take(places: Sequence[int]) -> Iterator[Columns]:
        rows = [lines.others[place] for place in places]
        names = {name for row in rows for name in row} - _SMOOTH
        yield places, ([row.get(name) for row in rows] for name in names)

    by_kind = _thin(others, most, lines, take), _thin(log, most, lines, cut)
    cycles = (place for place in others if lines.others[place]["kind"] != "evaluation")
    return sorted({0, len(lines) - 1, *cycles, *others[-(most // 12) :]}.union(*by_kind, *ends.values()))


def _thin(places: Sequence[int], most: int, lines: Lines, columns: Callable[[Sequence[int]], Iterable[Columns]]) -> Iterable[int]:
    """The places that stay of these: all, or those of the extremes, in as many stretches as give about `most`."""
    if len(places) <= most:
        return places
    names = {name for place in places[:: len(places) // _LOOKED_AT + 1] for name in lines.row(place)} - _SMOOTH
    stretches = max(1, most // (2 * len(names) + 1))
    parts = pairwise(len(places) * number // stretches for number in range(stretches + 1))
    return {
        found[at]
        for start, stop in parts
        for found, of_part in columns(places[start:stop])
        for values in of_part
        for at in _ends(values)
    }


def _ends(values: Sequence[Any]) -> Iterator[int]:
    """Where the lowest and the highest value stand, and the first that is no number or not finite."""
    try:
        numbers = list(map(float, values))
    except (TypeError, ValueError):
        numbers = list(map(_number, values))
    finite = numbers if math.isfinite(sum(numbers)) else list(filter(math.isfinite, numbers))
    if finite:
        yield numbers.index(min(finite))
        yield numbers.index(max(finite))
    if len(finite) < len(numbers):
        yield next(at for at, value in enumerate(numbers) if not math.isfinite(value))


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):  # None, null, or a tagged inf or nan
        return math.nan
