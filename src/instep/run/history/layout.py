"""Layout: the names of a row and the kinds of its numbers, so that rows alike can be kept as their numbers alone.

A row of the log takes 0.6 to 1.5 kB of memory as a dictionary, and 100 to 150 bytes as its numbers.
"""

from __future__ import annotations

import struct
from itertools import compress
from typing import Any

from instep.run.history.lines import Row

_MOST = 1 << 16  # layouts, which a packed row names by two bytes

Key = tuple[Any, ...]


class Layout:
    """How rows with the same names in the same order are packed: the number of the layout, then their own numbers.

    Their kind, and what is None, is part of the layout.
    """

    def __init__(self, number: int, row: Row) -> None:
        self._number = number
        self._blank = {name: value for name, value in row.items() if name != "clock"}
        self._blank_clock: Row | None = row.get("clock")
        self._is_packed = [bool(_code(value)) for value in row.values()]
        self._is_packed_clock = [bool(_code(value)) for value in (self._blank_clock or {}).values()]
        self._names = list(compress(row, self._is_packed))
        self._clock_names = list(compress(self._blank_clock or (), self._is_packed_clock))
        self._format = f"<H{''.join(map(_code, [*row.values(), *(self._blank_clock or {}).values()]))}"

    def has(self, name: str) -> bool:
        return name in self._blank

    def pack(self, row: Row) -> bytes:
        """Raises struct.error where a whole number has more than 64 bits."""
        clock = compress(row["clock"].values(), self._is_packed_clock) if self._clock_names else ()
        return struct.pack(self._format, self._number, *compress(row.values(), self._is_packed), *clock)

    def unpack(self, packed: bytes) -> Row:
        numbers = iter(struct.unpack(self._format, packed)[1:])
        row = self._blank | dict(zip(self._names, numbers, strict=False))
        if self._blank_clock is not None:
            row["clock"] = self._blank_clock | dict(zip(self._clock_names, numbers, strict=True))
        return row

    def point(self, packed: bytes, name: str) -> tuple[int, Any]:
        """The step of a row, and one of its values."""
        numbers = struct.unpack(self._format, packed)
        value = numbers[1 + self._names.index(name)] if name in self._names else self._blank[name]
        return numbers[1 + self._names.index("step")], value


class Layouts:
    """The layouts of a history, found by the rows that come."""

    def __init__(self) -> None:
        self._known: dict[Key, Layout | None] = {}
        self._by_number: list[Layout] = []

    def pack(self, row: Row) -> bytes | Row:
        """The row as bytes; as it is where it holds something that does not fit in there."""
        clock = row.get("clock", {})
        key = (row.get("kind"), *row, *map(type, row.values()), *clock, *map(type, clock.values()))
        layout = self._known[key] if key in self._known else self._add(key, row)
        try:
            return row if layout is None else layout.pack(row)
        except struct.error:
            return row

    def of(self, packed: bytes) -> Layout:
        return self._by_number[packed[0] | packed[1] << 8]

    def _add(self, key: Key, row: Row) -> Layout | None:
        numbers = [value for name, value in row.items() if name not in ("kind", "clock")] + [*row.get("clock", {}).values()]
        fits = all(value is None or isinstance(value, int | float) for value in numbers) and isinstance(row.get("step"), int)
        self._known[key] = Layout(len(self._by_number), row) if fits and len(self._by_number) < _MOST else None
        if (layout := self._known[key]) is not None:
            self._by_number.append(layout)
        return layout


def _code(value: Any) -> str:
    """For struct; a number of a class of its own (NumPy's float64 is a float) comes back as Python's."""
    return "?" if isinstance(value, bool) else "q" if isinstance(value, int) else "d" if isinstance(value, float) else ""
