"""The run folder: where a run keeps what it says. Nothing is written before the first update."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from instep.errors import FolderError

DESCRIPTION, HISTORY = "run.json", "history.jsonl"


class RunFolder:
    """`run.json` (the description and how far the run came) and the history beside it."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._description: dict[str, Any] = {}

    @property
    def history(self) -> Path:
        return self.path / HISTORY

    def create(self, description: Mapping[str, Any]) -> None:
        """Make the folder and write the description; a folder that holds a run already is refused."""
        if (self.path / DESCRIPTION).exists():
            raise FolderError(f"{self.path} holds a run already; use another folder, or move it aside (instep train --fresh).")
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise FolderError(f"{self.path} cannot be made: {error.strerror}.") from None
        self._description = dict(description)
        self.set_status("running", 0)

    def set_status(self, state: str, step: int) -> None:
        """How far the run came: running, finished, stopped, interrupted or failed."""
        self._description["status"] = {"state": state, "step": step}
        write_json(self.path / DESCRIPTION, self._description)


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """The file is the old one or the new one, never half of it."""
    beside = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        beside.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
        os.replace(beside, path)
    except OSError as error:
        raise FolderError(f"{path} cannot be written: {error.strerror}.") from None
