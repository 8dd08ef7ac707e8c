"""The files of a run folder: their names, and how they are read and written, without torch.

`read_run` reads what there is, for people: files may be missing, torn or half written; that is said, and the rest is shown.
`read_description` is for a run that goes on, which must not begin from half of a description.
"""

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from instep.errors import DescriptionError, FolderError, explain_write
from instep.run.history import History, HistoryFile, Mode, ReadBack
from instep.run.lock import is_locked

DESCRIPTION, HISTORY, CHECKPOINTS = "run.json", "history.jsonl", "checkpoints"
BEST = "BEST"  # names the best checkpoint
MOST_ROWS = 12_000  # of a history that are taken: of a longer one the extremes of each column, and evaluations
_CHECKPOINT = re.compile(r"step-(\d{8,15})")


@dataclass(frozen=True)
class RecordedRun:
    """What could be read from a run folder."""

    path: Path
    description: Mapping[str, Any]  # run.json; empty where there is none
    history: History
    problems: tuple[str, ...]  # what could not be read, in words
    left_out: int = 0  # rows of the log that a long history has beside those that were taken
    left_out_evaluations: int = 0

    @property
    def state(self) -> str:
        """How it ended. One that says it is running does so while its folder is locked; otherwise it was killed: unfinished."""
        state = section(self.description, "status").get("state")
        if state == "running":
            return "running" if is_locked(self.path) else "unfinished"
        return state if state in ("finished", "stopped", "interrupted", "failed") else "unknown"

    @property
    def step(self) -> int | None:
        """How far it came: by its history, where that is ahead of its status."""
        status = section(self.description, "status").get("step")
        rows = self.history.rows
        said = [rows[-1]["step"] if rows else None, status]
        return max((step for step in said if isinstance(step, int)), default=None)

    @property
    def resumed(self) -> list[int]:
        """The steps from which it was resumed, in order; guessed by the clock where an earlier version has written it."""
        from instep.run.history.curves import resumed_at  # only a report asks

        said = self.description.get("resumed")
        noted = [step for step in said if isinstance(step, int)] if isinstance(said, list) else []
        return sorted([*noted, *(step for step in resumed_at(self.history.rows) if step not in noted)])

    @property
    def trained_s(self) -> float:
        """How long it has trained: by its rows, or by what it noted when it paused after the last of them."""
        from instep.run.history.curves import seconds_trained  # only a report asks

        return max(seconds_trained(self.history.rows), seconds_before_pause(self.description))

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


def _read_some(path: Path) -> ReadBack:
    return HistoryFile.read(path, about=MOST_ROWS)


def read_ends(path: Path) -> ReadBack:
    """For `read_run`, where no curve is drawn: the evaluations, and of the log no more than the first and the last row."""
    return HistoryFile.read(path, about=0)


def read_run(path: Path, *, read: Callable[[Path], ReadBack] = _read_some) -> RecordedRun:
    """Read what there is, the history by `read`; refuses only what is no run at all."""
    if not path.exists():
        raise DescriptionError(f"{path} does not exist; `instep runs` lists the runs there are.")
    if not is_run(path):
        raise DescriptionError(f"{path} is not a run: it has neither {DESCRIPTION} nor {HISTORY}.")
    found, problem = _parse_description(path)
    description = found or {}
    wrong_description = f"{DESCRIPTION} {problem or 'is missing'}" if found is None else None
    monitor = description.get("monitor")
    monitor = monitor if isinstance(monitor, str) else "valid/loss"
    mode: Mode = "max" if description.get("monitor_mode") == "max" else "min"
    found_history, wrong_history = _read_history(path / HISTORY, read, may_be_missing=_has_no_row_yet(description))
    return RecordedRun(
        path,
        description,
        History(found_history.rows, monitor=monitor, mode=mode),
        tuple(filter(None, (wrong_description, wrong_history))),
        found_history.left_out,
        found_history.left_out_evaluations,
    )


def read_description(path: Path) -> dict[str, Any] | None:
    """What `run.json` of this folder holds; None where there is none. Raises FolderError where it cannot be read."""
    require_no_file(path)
    found, problem = _parse_description(path)
    if problem is not None:
        raise FolderError(f"{path / DESCRIPTION} {problem}.")
    return found


def require_no_file(path: Path) -> None:
    """That nothing on the way to a run folder, nor the folder itself, is a file."""
    for part in (path, *path.parents):
        if part.is_file():
            raise FolderError(f"{part} is a file, and a run is kept in a folder; name another, or move the file away.")


def _parse_description(path: Path) -> tuple[dict[str, Any] | None, str | None]:
    """The description, None where there is none; and what is wrong with it."""
    try:
        found = json.loads((path / DESCRIPTION).read_bytes())
    except FileNotFoundError:
        return None, None
    except (OSError, ValueError, RecursionError) as error:
        return None, f"cannot be read: {error}"
    return (found, None) if isinstance(found, dict) else (None, "is not a JSON object")


def write_description(path: Path, description: Mapping[str, Any]) -> None:
    """Write `run.json` of this folder; the file is the old one or the new one, never half of it. Waits for the disk."""
    from instep.checkpoint.durable import replace_file  # brings torch

    content = json.dumps(description, indent=2, allow_nan=False) + "\n"
    try:
        replace_file(path / DESCRIPTION, content.encode())
    except OSError as error:
        raise FolderError(f"{path / DESCRIPTION} cannot be written: {explain_write(error, path)}") from None


def _has_no_row_yet(description: Mapping[str, Any]) -> bool:
    """Whether a run stands within its first epoch, at whose end it has a row in any case."""
    step, epoch = section(description, "status").get("step"), description.get("steps_per_epoch")
    return isinstance(step, int) and isinstance(epoch, int) and step < epoch


def _read_history(path: Path, read: Callable[[Path], ReadBack], *, may_be_missing: bool) -> tuple[ReadBack, str | None]:
    try:
        found = read(path)
    except FileNotFoundError:
        return ReadBack([], 0, None), None if may_be_missing else f"{path.name} is missing"
    except OSError as error:
        return ReadBack([], 0, None), f"{path.name} cannot be read: {error}"
    return found, None if found.problem is None else f"{path.name}: {found.problem}"


def seconds_before_pause(description: Mapping[str, Any]) -> float:
    """How long a run had trained when it paused, by its `run.json`; 0 where that does not say."""
    noted = description.get("paused_after_s")
    return float(noted) if isinstance(noted, int | float) else 0.0


def section(description: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """A part of the description; empty where it is not there, or is something else."""
    value = description.get(name)
    return value if isinstance(value, dict) else {}


@dataclass(frozen=True)
class CheckpointEntry:
    """A checkpoint that a run keeps, as a listing of its folder tells it: nothing of what is in it is read."""

    step: int
    size_bytes: int
    written_s: float  # since 1970
    is_best: bool
    is_latest: bool


def find_checkpoints(run: Path) -> list[CheckpointEntry]:
    """The checkpoints of a run, the oldest first; none where it has none, or they cannot be listed."""
    folder = run / CHECKPOINTS
    found: dict[int, Path] = {}
    with suppress(OSError):
        for path in folder.iterdir():
            if (match := _CHECKPOINT.fullmatch(path.name)) and path.is_dir():
                found[int(match[1])] = path
    best, latest = _step_named_by(folder / BEST), max(found, default=None)
    entries = []
    for step, path in sorted(found.items()):
        with suppress(OSError):  # a run that is going on deletes old ones
            files = [entry.stat(follow_symlinks=False) for entry in os.scandir(path)]
            written_s = max((file.st_mtime for file in files), default=path.stat().st_mtime)
            size_bytes = sum(file.st_size for file in files)
            entries.append(CheckpointEntry(step, size_bytes, written_s, step == best, step == latest))
    return entries


def _step_named_by(label: Path) -> int | None:
    with suppress(OSError, ValueError), open(label, encoding="ascii") as file:
        match = _CHECKPOINT.fullmatch(file.read(64).strip())
        return int(match[1]) if match else None
    return None
