"""Following a history that grows: what was read is kept, and only what is new is read."""

import os
from dataclasses import replace
from pathlib import Path

from instep.run.history.jsonl import HistoryFile, ReadBack
from instep.run.history.lines import Lines, Row

SEEN_BYTES = 256  # of what was read last: where they are not the same any more, the file was cut and written anew


class FollowedHistory:
    """The rows of one file, of a long one about `most` when it is first read; with as many again, it is read anew."""

    def __init__(self, path: Path, most: int) -> None:
        self.path = path
        self._most = most
        self._known = ReadBack([], 0, None)
        self._new: list[Row] = []  # that were appended since it was read
        self._seen = b""

    def read(self, path: Path | None = None) -> ReadBack:
        """All rows that are known by now; raises OSError as open does."""
        known = self._known
        new = self._read_new() if known.length_bytes and len(self._new) < self._most else None
        if new is None or (new.problem is not None and "torn" not in new.problem):  # which names a line of the whole file
            return self._read_anew()
        self._new += map(new.row, range(len(new)))
        self._known = replace(known, length_bytes=known.length_bytes + new.length_bytes)
        if len(new):
            self._remember()
        return replace(self._known, rows=[*known.rows, *self._new], problem=new.problem)

    def _read_anew(self) -> ReadBack:
        self._known, self._new = HistoryFile.read(self.path, about=self._most), []
        self._remember()
        return self._known

    def _read_new(self) -> Lines | None:
        """What follows; None where the file is not the one that was read."""
        with open(self.path, "rb") as file:
            file.seek(self._known.length_bytes - len(self._seen))
            if file.read(len(self._seen)) != self._seen:
                return None
            return Lines(file.read())

    def _remember(self) -> None:
        with open(self.path, "rb") as file:
            length_bytes = self._known.length_bytes
            file.seek(max(0, length_bytes - SEEN_BYTES), os.SEEK_SET)
            self._seen = file.read(min(SEEN_BYTES, length_bytes))
