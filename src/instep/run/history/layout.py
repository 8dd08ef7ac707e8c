"""Layout: the names of a row and the kinds of its numbers, so that rows alike can be kept as their numbers alone.

A row of the log takes 1.5 kB of memory as a dictionary, and about 120 bytes as its numbers.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

from instep.run.history.lines import Row

_MOST = 1 << 16  # layouts, which a packed row names by two bytes


class Layout:
    """How rows with the same names are packed: the number of the layout, then their own numbers.

    What is not a number, a word or None, is part of the layout.
    """

    def __init__(self, number: int, row: Row) -> None:
        self.number = number
        self._blank = {name: value for name, value in row.items() if name != "clock"}
        self._blank_clock: Row | None = row.get("clock")
        self.names = [name for name, value in self._blank.items() if _code(value)]
        self._clock_names = [name for name, value in (self._blank_clock or {}).items() if _code(value)]
        self._format = f"<H{''.join(_code(value) for value in self._values(row))}"

    def has(self, name: str) -> bool:
        return name in self._blank

    def pack(self, row: Row) -> bytes:
        """Raises struct.error where a whole number has more than 64 bits."""
        return struct.pack(self._format, self.number, *self._values(row))

    def unpack(self, packed: bytes) -> Row:
        numbers = iter(struct.unpack(self._format, packed)[1:])
        row = self._blank | dict(zip(self.names, numbers, strict=False))
        if self._blank_clock is not None:
            row["clock"] = self._blank_clock | dict(zip(self._clock_names, numbers, strict=True))
        return row

    def point(self, packed: bytes, name: str) -> tuple[int, Any]:
        """The step of a row, and one of its values."""
        numbers = struct.unpack(self._format, packed)
        value = numbers[1 + self.names.index(name)] if name in self.names else self._blank[name]
        return numbers[1 + self.names.index("step")], value

    def _values(self, row: Row) -> list[Any]:
        clock = row.get("clock", {})
        return [*(row[name] for name in self.names), *(clock[name] for name in self._clock_names)]


class Layouts:
    """The layouts of a history, found by the rows that come."""

    def __init__(self) -> None:
        self._known: dict[tuple[Any, ...], Layout | None] = {}
        self._by_number: list[Layout] = []

    def pack(self, row: Row) -> bytes | Row:
        """The row as bytes; as it is where it holds something that does not fit in there."""
        key = (*_kinds(row), None, *_kinds(row.get("clock", {})))
        layout = self._known[key] if key in self._known else self._add(key, row)
        try:
            return row if layout is None else layout.pack(row)
        except struct.error:
            return row

    def of(self, packed: bytes) -> Layout:
        return self._by_number[packed[0] | packed[1] << 8]

    def _add(self, key: tuple[Any, ...], row: Row) -> Layout | None:
        values = [*(value for name, value in row.items() if name != "clock"), *row.get("clock", {}).values()]
        fits = all(value is None or isinstance(value, str | int | float) for value in values)
        layout = Layout(len(self._by_number), row) if fits and len(self._by_number) < _MOST else None
        if layout is not None:
            self._by_number.append(layout)
        self._known[key] = layout
        return layout


def _kinds(values: Row) -> Iterator[Any]:
    for name, value in values.items():
        yield name
        yield value if isinstance(value, str) else type(value)


def _code(value: Any) -> str:
    """For struct; a number of a class of its own (NumPy's float64 is a float) comes back as Python's."""
    return "?" if isinstance(value, bool) else "q" if isinstance(value, int) else "d" if isinstance(value, float) else ""
