"""Lines: a history as its file has it, every line checked and few of them parsed."""

from __future__ import annotations

import json
import zlib
from array import array
from collections.abc import Sequence
from itertools import accumulate, islice
from typing import Any

Row = dict[str, Any]

NO_COLUMNS = frozenset({"kind", "tables", "clock"})  # of a row: what is not a number over the steps
OTHER_KINDS = ("evaluation", "test", "cycle")  # few of them; there may be millions of updates
_LOG_LINES = (b'{"kind": "update"', b'{"kind": "log"')  # as json.dumps writes them
_CHECKSUM, _CHECKSUM_BYTES = b'"crc": "%08x"}}', 19  # the last of a line
_BLOCK_BYTES = 1 << 20  # that are checked together


class Lines:
    """The lines of a file up to the first that is damaged, or the first `most`.

    Checksums are compared, and what was written as it stands is not parsed where it is a line of the log: a million lines take
    a second, and the memory of the file. Other rows, and lines of earlier versions, which have no checksum, are parsed.
    """

    def __init__(self, content: bytes, *, most: int | None = None) -> None:
        self.content = content
        self.starts = array("Q", [0])  # of each line; the last entry is the end of the last line
        self.others: dict[int, Row] = {}  # the rows that are not of the log, by their place
        self.problem: str | None = None  # the damage, in words
        self._check(len(content) if most is None else most)

    @property
    def length_bytes(self) -> int:
        return self.starts[-1]

    def __len__(self) -> int:
        return len(self.starts) - 1

    def row(self, place: int) -> Row:
        """The row at a place; one of the log is made anew."""
        return self.others.get(place) or _parse(self.content[self.starts[place] : self.starts[place + 1]])

    def _check(self, most: int) -> None:
        while self.problem is None and self.length_bytes < len(self.content) and len(self) < most:
            start = self.length_bytes
            end = self.content.rfind(b"\n", start, start + _BLOCK_BYTES) + 1
            lines = self.content[start:end].split(b"\n")[:-1]
            if not lines or len(self) + len(lines) > most or not self._take_in(lines):
                self._take_in_each(min(most, len(self) + max(1, len(lines))))

    def _take_in(self, lines: Sequence[bytes]) -> bool:
        """Take these lines, where all of them have the right checksum."""
        found = tuple(map(zlib.crc32, [line[:-_CHECKSUM_BYTES] for line in lines]))
        if b"".join([line[-_CHECKSUM_BYTES:] for line in lines]) != (_CHECKSUM * len(lines)) % found:
            return False
        others = [(place, line) for place, line in enumerate(lines, start=len(self)) if not line.startswith(_LOG_LINES)]
        self.others |= {place: _parse(line) for place, line in others}
        ends = accumulate([len(line) + 1 for line in lines], initial=self.length_bytes)
        self.starts.extend(islice(ends, 1, None))
        return True

    def _take_in_each(self, most: int) -> None:
        """Take lines one by one, up to so many in all or the first that is damaged."""
        while self.length_bytes < len(self.content) and len(self) < most:
            start = self.length_bytes
            end = self.content.find(b"\n", start) + 1
            line = self.content[start : end - 1] if end else b""
            if not self._take_in([line]):
                row = _parse_unchecked(line)
                if row is None:
                    self.problem = _describe_damage(self.content, len(self) + 1, is_torn=not end)
                    return
                if row["kind"] in OTHER_KINDS:
                    self.others[len(self)] = row
                self.starts.append(end)


def _describe_damage(content: bytes, number: int, *, is_torn: bool) -> str:
    if is_torn:
        return "the last line is torn and left out"
    of = content.count(b"\n") + (not content.endswith(b"\n"))
    return f"line {number} of {of} is damaged; read up to it"


def _parse(line: bytes) -> Row:
    """The row of a line that is whole, without its checksum."""
    row: Row = json.loads(line, object_hook=untag if b'"$float"' in line else None)
    if (clock := row.get("clock")) and clock.pop("crc", None) and not clock:
        del row["clock"]
    return row


def _parse_unchecked(line: bytes) -> Row | None:
    """The row of a line without a checksum, or with a wrong one; None where it is none."""
    try:
        row = json.loads(line, object_hook=untag)
    except (ValueError, TypeError, RecursionError):
        return None
    return row if isinstance(row, dict) and _is_whole(row) else None


def _is_whole(row: Row) -> bool:
    """Whether a row says where it stands, and nothing but numbers, and the reason of a cycle: who reads it need not ask again."""
    is_cycle, clock = row.get("kind") == "cycle", row.get("clock", {})
    numbers = (value for name, value in row.items() if name not in (*NO_COLUMNS, *(("reason",) if is_cycle else ())))
    return (
        row.get("kind") in ("update", "log", *OTHER_KINDS)
        and (not is_cycle or (isinstance(row.get("reason"), str) and row.keys() >= {"cycle", "start", "stop", "max_lr"}))
        and isinstance(row.get("step"), int)
        and isinstance(row.get("epoch"), int)
        and isinstance(clock, dict)
        and all(value is None or isinstance(value, int | float) for value in clock.values())
        and isinstance(row.get("tables", {}), dict)
        and all(value is None or isinstance(value, int | float) for value in numbers)
    )


def untag(found: dict[str, Any]) -> Any:
    return float(found["$float"]) if found.keys() == {"$float"} else found
