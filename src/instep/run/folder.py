"""The run folder: where a run keeps what it says. Nothing is written before the first update."""

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from instep.checkpoint.durable import make_folder, replace_file, sync_folder
from instep.errors import FolderError, explain_write
from instep.run.lock import Lock
from instep.run.run_files import require_no_file

DESCRIPTION, HISTORY, CHECKPOINTS = "run.json", "history.jsonl", "checkpoints"


class RunFolder:
    """`run.json` (the description and how far the run came), the history and the checkpoints beside it, held by one process."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = Lock(path)
        self._description: dict[str, Any] = {}

    @property
    def history(self) -> Path:
        return self.path / HISTORY

    @property
    def checkpoints(self) -> Path:
        return self.path / CHECKPOINTS

    def enter(self) -> dict[str, Any] | None:
        """Make the folder and hold it; returns the description of the run that is in it, None for a new one."""
        require_no_file(self.path)
        try:
            make_folder(self.path)
        except OSError as error:
            raise FolderError(f"{self.path} cannot be made: {error.strerror}.") from None
        self._lock.take()
        try:
            return read_description(self.path)
        except FolderError:
            self._lock.release()
            raise

    def describe(self, description: Mapping[str, Any], created: str | None) -> None:
        """Write the description of the run that begins or goes on here."""
        now = time.strftime("%Y-%m-%dT%H:%M:%S%z")
        self._description = {**description, "created": created or now}

    def note(self, **said: Any) -> None:
        """What else the next process should find; written with the next status. What says nothing is left out."""
        self._description |= said
        for name in [name for name, value in said.items() if not value]:
            del self._description[name]

    def leave(self) -> None:
        self._lock.release()

    def set_status(self, state: str, step: int) -> None:
        """How far the run came: running, finished, stopped, interrupted or failed."""
        self._description["status"] = {"state": state, "step": step}
        write_json(self.path / DESCRIPTION, self._description)


def read_description(path: Path) -> dict[str, Any] | None:
    """What `run.json` holds; None where there is none."""
    try:
        content = json.loads((path / DESCRIPTION).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise FolderError(f"{path / DESCRIPTION} cannot be read: {error}.") from None
    if not isinstance(content, dict):
        raise FolderError(f"{path / DESCRIPTION} does not describe a run.")
    return content


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """The file is the old one or the new one, never half of it. Waits for the disk, for all names in its folder too."""
    try:
        replace_file(path, (json.dumps(content, indent=2, allow_nan=False) + "\n").encode())
        sync_folder(path.parent)
    except OSError as error:
        raise FolderError(f"{path} cannot be written: {explain_write(error, path.parent)}") from None
