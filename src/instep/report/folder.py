"""RunFolder: a run as its folder tells it. Files may be missing, torn or half written: that is said, and the rest is shown."""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from instep.errors import DescriptionError
from instep.run.history import History, HistoryFile, Mode

DESCRIPTION, HISTORY = "run.json", "history.jsonl"


@dataclass(frozen=True)
class RunFolder:
    """What could be read from a run folder."""

    path: Path
    description: Mapping[str, Any]  # run.json; empty where there is none
    history: History
    problems: tuple[str, ...]  # what could not be read, in words

    @property
    def state(self) -> str:
        """How it ended. A run that says it is running is called unfinished: from its folder nobody can tell whether it lives."""
        state = section(self.description, "status").get("state")
        if state == "running":
            return "unfinished"
        return state if state in ("finished", "stopped", "interrupted", "failed") else "unknown"

    @property
    def step(self) -> int | None:
        """How far it came: by its history, where that is ahead of its status."""
        status = section(self.description, "status").get("step")
        rows = self.history.rows
        said = [rows[-1]["step"] if rows else None, status]
        return max((step for step in said if isinstance(step, int)), default=None)

    @property
    def created_s(self) -> float:
        """When it began, in seconds since 1970; by the age of its files where it does not say."""
        created = self.description.get("created")
        with suppress(ValueError):
            if isinstance(created, str):
                return datetime.fromisoformat(created).timestamp()
        return min((file.st_mtime for file in self._files()), default=self.path.stat().st_mtime)

    @property
    def size_bytes(self) -> int:
        """Of all files in it."""
        return sum(file.st_size for file in self._files())

    def _files(self) -> Iterator[os.stat_result]:
        for folder, _, names in os.walk(self.path):
            for name in names:
                with suppress(OSError):  # a run that is going on replaces its files
                    yield (Path(folder) / name).lstat()

    @property
    def end(self) -> int | None:
        """The step at which it ends as far as anybody knows: a run in cycles goes on to the end of its last one."""
        cycles = self.history.cycles
        return cycles[-1]["stop"] if cycles else self.total("total_steps")

    def total(self, name: str) -> int | None:
        """A count from the description, where it is one."""
        value = self.description.get(name)
        return value if isinstance(value, int) and value > 0 else None


def is_run(path: Path) -> bool:
    """Whether a folder holds a run."""
    return (path / DESCRIPTION).is_file() or (path / HISTORY).is_file()


def find_runs(folder: Path) -> list[Path]:
    """The run folders in a folder, at any depth, by name; the folder itself where it is one."""
    found = []
    for path, inner, _ in os.walk(folder):
        if is_run(Path(path)):
            found.append(Path(path))
            inner.clear()  # what is in a run is its own
    return sorted(found)


def read_run(path: Path) -> RunFolder:
    """Read what there is; refuses only what is no run at all."""
    if not path.exists():
        raise DescriptionError(f"{path} does not exist; `instep runs` lists the runs there are.")
    if not is_run(path):
        raise DescriptionError(f"{path} is not a run: it has neither {DESCRIPTION} nor {HISTORY}.")
    description, wrong_description = _read_description(path / DESCRIPTION)
    monitor = description.get("monitor")
    monitor = monitor if isinstance(monitor, str) else "valid/loss"
    history, wrong_history = _read_history(path / HISTORY, monitor, "max" if description.get("monitor_mode") == "max" else "min")
    return RunFolder(path, description, history, tuple(filter(None, (wrong_description, wrong_history))))


def _read_description(path: Path) -> tuple[Mapping[str, Any], str | None]:
    try:
        found = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}, f"{path.name} is missing"
    except (OSError, ValueError, RecursionError) as error:
        return {}, f"{path.name} cannot be read: {error}"
    return (found, None) if isinstance(found, dict) else ({}, f"{path.name} is not a JSON object")


def _read_history(path: Path, monitor: str, mode: Mode) -> tuple[History, str | None]:
    try:
        found = HistoryFile.read(path)
    except FileNotFoundError:
        return History(monitor=monitor, mode=mode), f"{path.name} is missing"
    except OSError as error:
        return History(monitor=monitor, mode=mode), f"{path.name} cannot be read: {error}"
    problem = None if found.problem is None else f"{path.name}: {found.problem}"
    return History(found.rows, monitor=monitor, mode=mode), problem


def section(description: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """A part of the description; empty where it is not there, or is something else."""
    value = description.get(name)
    return value if isinstance(value, dict) else {}
