"""The index: which runs are under a folder, and what each says in one line. Only what it names can be asked for.

A run is named by its path below the folder, and looked up, never joined to a path: so there is no way out by `..` or an encoded
slash. Links are not followed, and a run of which some file is a link is left out.
"""

import json
import os
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from instep.run.history import NO_COLUMNS
from instep.run.observed import FINDINGS, RANGE_TESTS
from instep.run.run_files import CHECKPOINTS, DESCRIPTION, HISTORY, find_runs, section

TAIL_BYTES = 16_384  # of a history: its last rows
LOOK_EVERY_S = 2.0  # for new runs
BUSY_S = 60.0  # a run that wrote within this is called running
MOST_RUNS = 10_000

Stamp = tuple[tuple[int, int], ...]  # when the files of a run were written, and how long they are


class Index:
    """The runs under a folder, by name. Read from several threads."""

    def __init__(self, folder: Path) -> None:
        self._root = folder.resolve()
        self._lock = threading.Lock()
        self._paths: dict[str, Path] = {}
        self._looked_s = -LOOK_EVERY_S
        self._lines: dict[str, tuple[Stamp, dict[str, Any]]] = {}

    def path(self, name: str) -> Path | None:
        """The folder of a run; None for what is no run of this folder."""
        found = self._find().get(name)
        return found if found is not None and self._is_inside(found) else None

    def stamp(self, name: str) -> Stamp:
        """Another one means that something was written."""
        path = self._find().get(name)
        return () if path is None else tuple(map(_written, (path / HISTORY, path / DESCRIPTION, path / FINDINGS)))

    def stamps(self) -> dict[str, Stamp]:
        """Those of all runs."""
        return {name: self.stamp(name) for name in self._find()}

    def is_running(self, name: str) -> bool:
        """Whether a run says so, and has written lately."""
        line = self._line(name)
        return line is not None and line["state"] == "running"

    def lines(self) -> list[dict[str, Any]]:
        """A line for each run; what was not written to is not read again."""
        return [line for name in self._find() if (line := self._line(name)) is not None]

    def _find(self) -> Mapping[str, Path]:
        with self._lock:
            if time.monotonic() - self._looked_s >= LOOK_EVERY_S:
                found = find_runs(self._root)[:MOST_RUNS]
                self._paths = {path.relative_to(self._root).as_posix(): path for path in found}
                self._looked_s = time.monotonic()
            return self._paths

    def _is_inside(self, path: Path) -> bool:
        """That nothing of it is a link, nor any folder above it, by now."""
        parts = (os.path.join(path, name) for name in (DESCRIPTION, HISTORY, CHECKPOINTS, RANGE_TESTS, FINDINGS))
        return os.path.realpath(path) == str(path) and not any(map(os.path.islink, parts))

    def _line(self, name: str) -> dict[str, Any] | None:
        path = self.path(name)
        if path is None:
            return None
        stamp = self.stamp(name)
        known = self._lines.get(name)
        if known is None or known[0] != stamp:
            known = self._lines[name] = (stamp, _read_line(name, path))
        line = known[1]
        is_silent = line["state"] == "running" and time.time() - stamp[0][0] / 1e9 > BUSY_S
        return {**line, "state": "unfinished" if is_silent else line["state"]}


def _written(file: Path) -> tuple[int, int]:
    try:
        found = file.stat()
    except OSError:
        return 0, 0
    return found.st_mtime_ns, found.st_size


def _read_line(name: str, path: Path) -> dict[str, Any]:
    said: Any = {}
    with suppress(OSError, ValueError):
        said = json.loads((path / DESCRIPTION).read_bytes())
    said = said if isinstance(said, dict) else {}
    rows = _last_rows(path / HISTORY)
    numbers: dict[str, Any] = {}
    for row in rows:
        numbers |= {key: value for key, value in row.items() if key not in NO_COLUMNS and isinstance(value, int | float)}
    status = section(said, "status")
    steps = [step for step in (numbers.get("step"), status.get("step")) if isinstance(step, int)]
    return {
        "name": name,
        "title": str(said.get("title", "")),
        "state": str(status.get("state", "unknown")),
        "created": str(said.get("created", "")),
        "step": max(steps, default=None),
        "end": said.get("total_steps") if isinstance(said.get("total_steps"), int) else None,
        "monitor": str(said.get("monitor") or ""),
        "numbers": {key: value for key, value in numbers.items() if key not in ("step", "epoch")},
        "hyper_parameters": {key: value if isinstance(value, int | float | str) else json.dumps(value)
                             for key, value in section(said, "hyper_parameters").items()},
    }  # fmt: skip


def _last_rows(file: Path) -> list[dict[str, Any]]:
    with suppress(OSError), open(file, "rb") as opened:
        length = os.fstat(opened.fileno()).st_size
        opened.seek(max(0, length - TAIL_BYTES))
        lines = opened.read().split(b"\n")
        return [row for line in (lines[1:] if length > TAIL_BYTES else lines) if (row := _row(line)) is not None]
    return []


def _row(line: bytes) -> dict[str, Any] | None:
    with suppress(ValueError):
        row = json.loads(line)
        if isinstance(row, dict) and row.get("kind") in ("update", "evaluation"):
            return row
    return None
