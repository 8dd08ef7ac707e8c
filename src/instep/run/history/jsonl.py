"""HistoryFile: the rows of a history as JSON lines, and back."""

from __future__ import annotations

import json
import math
import os
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from instep.errors import FolderError, explain_write
from instep.run.history.lines import Lines, Row
from instep.run.history.rows import Rows
from instep.run.history.sampled import some_places


@dataclass(frozen=True)  # not of `instep.records`, which imports torch
class ReadBack:
    """What `HistoryFile.read` found: the rows up to the first damage, and how many bytes they take."""

    rows: Sequence[Row]
    length_bytes: int
    problem: str | None  # the damage, in words
    left_out: int = 0  # rows of the log that were not asked for
    left_out_evaluations: int = 0  # and other rows


class HistoryFile:
    """A file of JSON lines that only grows, one row a line, each written out at once.

    inf and nan, for which JSON has no words, are written as `{"$float": "inf"}` and restored by `read`. A line ends in a checksum
    of all that stands before it, beside what depends on the clock: `"clock": {"seconds": 1.0, "crc": "8d39f2a1"}}`. Lines of
    earlier versions have none.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._whole = False  # whether its end was seen to be that of a line
        self._is_named = False  # whether its name is on the disk for sure

    @property
    def length_bytes(self) -> int:
        return self.path.stat().st_size if self.path.exists() else 0

    def append(self, row: Mapping[str, Any]) -> None:
        """Write one row: what was appended outlives a killed process. 10 µs of it are for not keeping the file open."""
        if not self._whole:
            self._check(self.length_bytes, "ends in a torn line; cut() it to the length that read() gives before appending.")
        line = _line(row)
        self._whole = False  # should the disk be full
        try:
            with self.path.open("ab") as file:
                file.write(line)
        except OSError as error:
            raise FolderError(f"{self.path} cannot be written to: {explain_write(error, self.path.parent)}") from None
        self._whole = True

    def sync(self) -> None:
        """See to it that what was appended outlives a power cut. Waits for the disk."""
        from instep.checkpoint.durable import sync, sync_folder  # brings torch, which who only reads a history can do without

        if self.path.exists():
            with self.path.open("rb") as file:
                sync(file.fileno())
            if not self._is_named:
                sync_folder(self.path.parent)
                self._is_named = True

    def cut(self, length_bytes: int) -> None:
        """Drop what stands after `length_bytes`, for a run that goes on from there."""
        if length_bytes > self.length_bytes:
            raise FolderError(
                f"{self.path} has {self.length_bytes} bytes, fewer than the {length_bytes} to be kept: rows are lost."
            )
        self._check(length_bytes, f"cannot be cut to {length_bytes} bytes: that is inside a line.")
        if self.path.exists():
            os.truncate(self.path, length_bytes)

    def go_on_after(self, rows: int) -> Sequence[Row]:
        """The first `rows` rows; what stands after them is cut off. Where one is damaged or missing, nothing is cut."""
        found = HistoryFile.read(self.path, most=rows) if rows and self.path.exists() else ReadBack([], 0, None)
        if len(found.rows) < rows:
            if found.problem is not None and "torn" not in found.problem:
                damage = found.problem.partition(";")[0]
                raise FolderError(f"{self.path}: {damage}. Mend the file, or start again in another folder.")
            raise FolderError(
                f"{self.path} has {len(found.rows)} of the {rows} rows to go on from; put the file back, or start again (fresh)."
            )
        self.cut(found.length_bytes)
        return found.rows

    def _check(self, length_bytes: int, otherwise: str) -> None:
        """That a line ends at `length_bytes`."""
        if length_bytes:
            with self.path.open("rb") as file:
                file.seek(length_bytes - 1)
                if file.read(1) != b"\n":
                    raise FolderError(f"{self.path} {otherwise}")

    @staticmethod
    def read(path: str | Path, *, most: int | None = None, about: int | None = None) -> ReadBack:
        """The rows of a file, or the first `most`. A torn last line, as a kill leaves it, is left out and said, as any damage.

        Lines of the log are parsed when somebody asks for them. With `about`, a longer file gives about so many rows: the
        extremes of each column, and evaluations; with `about=0` all but those of the log, and the first and the last.
        """
        lines = Lines(Path(path).read_bytes(), most=most)
        return ReadBack(Rows(lines), lines.length_bytes, lines.problem) if about is None else read_some(lines, about)


def read_some(lines: Lines, about: int) -> ReadBack:
    """About so many of the rows of these lines."""
    places = some_places(lines, about)
    others = sum(place in lines.others for place in places)
    left_out = len(lines) - len(lines.others) - (len(places) - others), len(lines.others) - others
    return ReadBack([lines.row(place) for place in places], lines.length_bytes, lines.problem, *left_out)


def _line(row: Mapping[str, Any]) -> bytes:
    """A row as it is written, with the checksum of what stands before it."""
    clock = row.get("clock") or {}
    others = {name: value for name, value in row.items() if name != "clock"}
    start = json.dumps(_tag({**others, "clock": clock}), allow_nan=False)[:-2] + (", " if clock else "")
    return f'{start}"crc": "{zlib.crc32(start.encode()):08x}"}}}}\n'.encode()


def _tag(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return {"$float": str(float(value))}
    if isinstance(value, Mapping):
        return {name: _tag(item) for name, item in value.items()}
    return value
