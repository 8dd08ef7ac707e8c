"""Rows: what a history holds, in little memory. A row of the log becomes a dictionary when somebody asks for it."""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Any, overload

from instep.run.history import cut
from instep.run.history.layout import Layouts
from instep.run.history.lines import NO_COLUMNS, OTHER_KINDS, Lines, Row


class RowSequence(Sequence[Row]):
    """Rows that are made when they are asked for; for the rest like a list."""

    @abstractmethod
    def _row(self, place: int) -> Row: ...

    @overload
    def __getitem__(self, place: int) -> Row: ...
    @overload
    def __getitem__(self, place: slice) -> list[Row]: ...
    def __getitem__(self, place: int | slice) -> Row | list[Row]:
        found = range(len(self))[place]  # raises IndexError as a list does
        return self._row(found) if isinstance(found, int) else [self._row(one) for one in found]

    def __iter__(self) -> Iterator[Row]:
        return map(self._row, range(len(self)))

    def __eq__(self, other: object) -> bool:
        return list(self) == list(other) if isinstance(other, list | RowSequence) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # it grows, as a list does

    def __repr__(self) -> str:
        return repr(list(self))


class Rows(RowSequence):
    """All rows in order: those of a file, then those that were appended.

    Evaluations, tests and cycles are kept as they are, and so is the last row. Lines of a file stay
    as they are, and are parsed one by one; columns are cut out of them.
    """

    def __init__(self, lines: Lines | None = None) -> None:
        self._lines = lines
        self._kept: list[bytes | Row] = []  # what follows them
        self._layouts = Layouts()
        self.others: dict[int, Row] = {}  # the rows that are not of the log, by their place
        self._before: list[int] = []  # for each of these, how many rows of the log there are before it
        for place, row in {} if lines is None else lines.others.items():
            self._add_other(place, dict(row))

    def __len__(self) -> int:
        return len(self._kept) if self._lines is None else len(self._lines) + len(self._kept)

    def append(self, row: Row) -> None:
        if row.get("kind") in OTHER_KINDS:
            self._add_other(len(self), row)
        if self._kept:
            self._kept[-1] = self._pack(self._kept[-1])
        self._kept.append(row)

    def copy(self) -> Rows:
        copied = Rows(self._lines)
        copied._layouts = self._layouts
        for one in self._kept:
            copied._kept.append(one) if isinstance(one, bytes) else copied.append(dict(one))
        return copied

    def log_place(self, number: int) -> int:
        """Where the row of the log with this number stands."""
        return number + bisect_right(self._before, number)

    def points(self, name: str) -> Iterator[tuple[int, Any]]:
        """The step and the value of each row that has this column; cycles have none."""
        if self._lines is not None:
            yield from cut.points(self._lines, name)
        for one in self._kept:
            if isinstance(one, dict):
                if name in one and one.get("kind") != "cycle":
                    yield one["step"], one[name]
            elif (layout := self._layouts.of(one)).has(name):
                yield layout.point(one, name)

    def names(self) -> list[str]:
        """The columns, as they first appear."""
        firsts = {} if self._lines is None else cut.first_places(self._lines)
        by_place = {place: names for names, place in firsts.items()}
        by_place |= {place: tuple(row) for place, row in self.others.items() if row["kind"] != "cycle"}
        seen: set[bytes] = set()
        for place, one in enumerate(self._kept, start=len(self) - len(self._kept)):
            if isinstance(one, dict):
                by_place[place] = () if one.get("kind") == "cycle" else tuple(one)
            elif one[:2] not in seen:
                seen.add(one[:2])
                by_place[place] = tuple(self._layouts.of(one).unpack(one))
        found = dict.fromkeys(name for place in sorted(by_place) for name in by_place[place])
        return [name for name in found if name not in NO_COLUMNS]

    def _row(self, place: int) -> Row:
        if place in self.others:
            return self.others[place]
        if self._lines is not None:
            if place < len(self._lines):
                return self._lines.row(place)
            place -= len(self._lines)
        one = self._kept[place]
        return one if isinstance(one, dict) else self._layouts.of(one).unpack(one)

    def _pack(self, row: bytes | Row) -> bytes | Row:
        return self._layouts.pack(row) if isinstance(row, dict) and row.get("kind") not in OTHER_KINDS else row

    def _add_other(self, place: int, row: Row) -> None:
        self._before.append(place - len(self.others))
        self.others[place] = row


class Updates(RowSequence):
    """The rows of the log among others."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows) - len(self._rows.others)

    def _row(self, place: int) -> Row:
        return self._rows[self._rows.log_place(place)]
