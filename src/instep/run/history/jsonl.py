"""HistoryFile: the rows of a history as JSON lines, and back."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from instep.errors import FolderError
from instep.run.history.record import NO_COLUMNS, Row
from instep.run.history.sampled import some_lines


@dataclass(frozen=True)
class ReadBack:
    """What `HistoryFile.read` found: the rows up to the first damage, and how many bytes they take."""

    rows: list[Row]
    length_bytes: int
    problem: str | None  # the damage, in words


class HistoryFile:
    """A file of JSON lines that only grows, one row a line, each written out at once.

    inf and nan, for which JSON has no words, are written as `{"$float": "inf"}` and restored by `read`.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._whole = False  # whether its end was seen to be that of a line

    @property
    def length_bytes(self) -> int:
        return self.path.stat().st_size if self.path.exists() else 0

    def append(self, row: Mapping[str, Any]) -> None:
        """Write one row: what was appended outlives a killed process. 10 µs of it are for not keeping the file open."""
        if not self._whole:
            self._check(self.length_bytes, "ends in a torn line; cut() it to the length that read() gives before appending.")
        line = json.dumps(_tag(row), allow_nan=False).encode()
        self._whole = False  # should the disk be full
        try:
            with self.path.open("ab") as file:
                file.write(line + b"\n")
        except OSError as error:
            raise FolderError(f"{self.path} cannot be written to: {error.strerror}.") from None
        self._whole = True

    def sync(self) -> None:
        """See to it that what was appended outlives a power cut. Waits for the disk."""
        from instep.checkpoint.durable import sync  # brings torch, which who only reads a history can do without

        if self.path.exists():
            with self.path.open("rb") as file:
                sync(file.fileno())

    def cut(self, length_bytes: int) -> None:
        """Drop what stands after `length_bytes`, for a run that goes on from there."""
        if length_bytes > self.length_bytes:
            raise FolderError(
                f"{self.path} has {self.length_bytes} bytes, fewer than the {length_bytes} to be kept: rows are lost."
            )
        self._check(length_bytes, f"cannot be cut to {length_bytes} bytes: that is inside a line.")
        if self.path.exists():
            os.truncate(self.path, length_bytes)

    def length_of(self, rows: int) -> int:
        """How many bytes the first `rows` rows take."""
        length = found = 0
        if rows and self.path.exists():
            with self.path.open("rb") as file:
                for line in file:
                    if found == rows or not line.endswith(b"\n"):
                        break
                    length += len(line)
                    found += 1
        if found < rows:
            raise FolderError(
                f"{self.path} has {found} of the {rows} rows to go on from; put the file back, or start again (fresh)."
            )
        return length

    def _check(self, length_bytes: int, otherwise: str) -> None:
        """That a line ends at `length_bytes`."""
        if length_bytes:
            with self.path.open("rb") as file:
                file.seek(length_bytes - 1)
                if file.read(1) != b"\n":
                    raise FolderError(f"{self.path} {otherwise}")

    @staticmethod
    def read(path: str | Path, *, most: int | None = None) -> ReadBack:
        """The rows of a file. A torn last line, as a kill leaves it, is left out and reported, like any other damage.

        With `most`, a longer file gives about so many rows: the extremes of the loss, and evaluations, evenly spread.
        """
        content = Path(path).read_bytes()
        lines = content.splitlines(keepends=True)
        if most is None or len(lines) <= most:
            return parse_lines(lines)
        found = parse_lines(some_lines(lines, most))
        return replace(found, length_bytes=content.rfind(b"\n") + 1)


def parse_lines(lines: Sequence[bytes]) -> ReadBack:
    """The rows of these lines, up to the first that is none."""
    rows: list[Row] = []
    length_bytes = 0
    for number, line in enumerate(lines, start=1):
        row = _row(line)
        if row is None:
            torn = number == len(lines)
            problem = "the last line is torn and left out" if torn else f"line {number} of {len(lines)} is damaged; read up to it"
            return ReadBack(rows, length_bytes, problem)
        rows.append(row)
        length_bytes += len(line)
    return ReadBack(rows, length_bytes, None)


def _row(line: bytes) -> Row | None:
    if not line.endswith(b"\n"):
        return None
    try:
        row = json.loads(line, object_hook=_untag)
    except (ValueError, TypeError):
        return None
    return row if isinstance(row, dict) and _is_whole(row) else None


def _is_whole(row: Row) -> bool:
    """Whether a row says where it stands, and nothing but numbers, and the reason of a cycle: who reads it need not ask again."""
    is_cycle = row.get("kind") == "cycle"
    numbers = (value for name, value in row.items() if name not in (*NO_COLUMNS, *(("reason",) if is_cycle else ())))
    return (
        row.get("kind") in ("update", "evaluation", "test", "log", "cycle")
        and (not is_cycle or (isinstance(row.get("reason"), str) and row.keys() >= {"cycle", "start", "stop", "max_lr"}))
        and isinstance(row.get("step"), int)
        and isinstance(row.get("epoch"), int)
        and isinstance(row.get("clock", {}), dict)
        and isinstance(row.get("tables", {}), dict)
        and all(value is None or isinstance(value, int | float) for value in numbers)
    )


def _tag(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return {"$float": str(float(value))}
    if isinstance(value, Mapping):
        return {name: _tag(item) for name, item in value.items()}
    return value


def _untag(found: dict[str, Any]) -> Any:
    return float(found["$float"]) if found.keys() == {"$float"} else found
