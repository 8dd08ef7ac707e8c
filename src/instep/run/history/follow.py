"""Following a history that grows: what was read is kept, and only what is new is read."""

import os
from pathlib import Path

from instep.run.history.jsonl import HistoryFile, ReadBack, parse_lines
from instep.run.history.record import Row

SEEN_BYTES = 256  # of what was read last: where they are not the same any more, the file was cut and written anew


class FollowedHistory:
    """The rows of one file, of a long one about `most` when it is first read; with twice as many, it is read anew."""

    def __init__(self, path: Path, most: int) -> None:
        self.path = path
        self._most = most
        self._rows: list[Row] = []
        self._length_bytes = 0
        self._seen = b""

    def read(self, path: Path | None = None) -> ReadBack:
        """All rows that are known by now; raises OSError as open does."""
        new = self._read_new() if self._length_bytes and len(self._rows) < 2 * self._most else None
        if new is None:
            return self._read_anew()
        if new.length_bytes:
            self._rows += new.rows
            self._length_bytes += new.length_bytes
            self._remember()
        return ReadBack(list(self._rows), self._length_bytes, new.problem)

    def _read_anew(self) -> ReadBack:
        found = HistoryFile.read(self.path, about=self._most)
        self._rows = list(found.rows)
        self._length_bytes = found.length_bytes
        self._remember()
        return found

    def _read_new(self) -> ReadBack | None:
        """What follows; None where the file is not the one that was read."""
        with open(self.path, "rb") as file:
            file.seek(self._length_bytes - len(self._seen))
            if file.read(len(self._seen)) != self._seen:
                return None
            return parse_lines(file.read().splitlines(keepends=True))

    def _remember(self) -> None:
        with open(self.path, "rb") as file:
            file.seek(max(0, self._length_bytes - SEEN_BYTES), os.SEEK_SET)
            self._seen = file.read(min(SEEN_BYTES, self._length_bytes))
