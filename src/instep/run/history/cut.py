"""Values cut out of the lines of a log, without parsing them: a million lines take a second or two, where parsing takes ten."""

from __future__ import annotations

import json
import re
from array import array
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from instep.run.history.lines import NO_COLUMNS, Lines, untag

_TOGETHER = 4_096  # lines
_MOST_PATTERNS = 32  # lines with further sets of columns are parsed

Names = tuple[str, ...]


class Piece(NamedTuple):
    """Rows with the same columns."""

    names: Names  # that they have
    places: Sequence[int]
    values: dict[str, Sequence[bytes]]  # by those names that were wanted, as JSON


class Cutter:
    """Cuts some columns out of lines of the log, by a pattern for each set of columns, which are made as the lines come."""

    def __init__(self, lines: Lines, wants: Callable[[str], bool]) -> None:
        self._lines = lines
        self._wants = wants
        self._patterns: dict[Names, re.Pattern[bytes]] = {}
        self._latest: Names = ()

    def cut(self, places: Sequence[int]) -> Iterator[Piece]:
        """Lines that follow each other mostly have the same columns: then one call cuts them all."""
        starts, pattern = self._lines.starts, self._patterns.get(self._latest)
        rows = [] if pattern is None else pattern.findall(self._lines.content, starts[places[0]], starts[places[-1] + 1])
        found = {self._latest: (places, rows)} if len(rows) == len(places) else self._cut_each(places)
        for names, (of_names, values) in found.items():
            wanted = filter(self._wants, names)
            yield Piece(names, of_names, dict(zip(wanted, zip(*values, strict=True), strict=False)))

    def _cut_each(self, places: Sequence[int]) -> dict[Names, tuple[Sequence[int], list[Sequence[bytes]]]]:
        found: dict[Names, tuple[list[int], list[Sequence[bytes]]]] = {}
        for place in places:
            self._latest, values = self._cut_one(place)
            of_names = found.setdefault(self._latest, ([], []))
            of_names[0].append(place)
            of_names[1].append(values)
        return {**found}

    def _cut_one(self, place: int) -> tuple[Names, Sequence[bytes]]:
        """The columns of a line and the values that are wanted; it is parsed where no pattern serves."""
        line = self._lines.content, self._lines.starts[place], self._lines.starts[place + 1]
        for names, pattern in self._patterns.items():
            if match := pattern.fullmatch(*line):
                return names, match.groups()
        row = self._lines.row(place)
        names = tuple(name for name in row if name not in NO_COLUMNS)
        if len(self._patterns) < _MOST_PATTERNS:
            pattern = self._pattern(names)
            if match := pattern.fullmatch(*line):
                self._patterns[names] = pattern
                return names, match.groups()
        return names, [*(json.dumps(row[name]).encode() for name in names if self._wants(name)), b""]

    def _pattern(self, names: Names) -> re.Pattern[bytes]:
        """Of lines with these columns, as json.dumps writes them. The last group is empty: so findall gives tuples always."""
        values = (b"([^,\\n]+)" if self._wants(name) else b"[^,\\n]+" for name in names)
        parts = (b", %s: %s" % (re.escape(json.dumps(name).encode()), value) for name, value in zip(names, values, strict=True))
        return re.compile(rb'\{"kind": "(?:update|log)"%s(?:, "clock": .*|\})\n()' % b"".join(parts))


def points(lines: Lines, name: str) -> Iterator[tuple[int, Any]]:
    """The step and the value of each row of these lines that has this column, in order; rows of cycles have none."""
    cutter = Cutter(lines, {"step", name}.__contains__)
    for start in range(0, len(lines), _TOGETHER):
        part = range(start, min(start + _TOGETHER, len(lines)))
        log, others = split_places(lines, part)
        found = [
            (place, lines.others[place]["step"], lines.others[place][name])
            for place in others
            if name in lines.others[place] and lines.others[place]["kind"] != "cycle"
        ]
        for piece in cutter.cut(log) if log else ():
            if name in piece.names:
                found += zip(piece.places, *(_numbers(piece.values[one]) for one in ("step", name)), strict=True)
        found.sort(key=lambda point: point[0])
        yield from ((step, value) for _, step, value in found)


def first_places(lines: Lines) -> dict[Names, int]:
    """Where each set of columns is first met among the rows of the log."""
    cutter = Cutter(lines, lambda name: False)
    found: dict[Names, int] = {}
    for start in range(0, len(lines), _TOGETHER):
        log, _ = split_places(lines, range(start, min(start + _TOGETHER, len(lines))))
        for piece in cutter.cut(log) if log else ():
            found.setdefault(piece.names, piece.places[0])
    return found


def split_places(lines: Lines, places: range) -> tuple[Sequence[int], Sequence[int]]:
    """Those of the log, and the others."""
    others = [place for place in places if place in lines.others]
    return (array("Q", (place for place in places if place not in lines.others)) if others else places), others


def _numbers(values: Sequence[bytes]) -> list[Any]:
    numbers: list[Any] = json.loads(b"[%s]" % b",".join(values), object_hook=untag)
    return numbers
