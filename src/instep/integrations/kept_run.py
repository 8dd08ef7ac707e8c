"""The run of a store that cannot take points back (MLflow, W&B, trackio): which one it is, and which points it has already.

A resumed run makes its rows again from the last checkpoint on, bit for bit. So a point that such a store has stays, and is not
written a second time. Where the run was changed in between, old points would be wrong, and it gets a new run in the store.
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from instep.checkpoint.durable import replace_file
from instep.run.history import Row
from instep.run.loggers import numbers_of

Points = dict[str, set[int]]  # the steps of each curve


class KeptRun:
    """The id of a run in a store, kept in a file of the run folder; without a folder, as long as the logger lives."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._path: Path | None = None
        self._said: dict[str, Any] = {}

    def find(self, description: Mapping[str, Any]) -> str | None:
        """The id under which this run was logged before."""
        self._path = None if description["folder"] is None else Path(description["folder"]) / self._file
        if self._path is not None:
            self._said = {}
            with suppress(OSError, ValueError):
                self._said = dict(json.loads(self._path.read_bytes()))
        found = self._said.get("id")
        return found if isinstance(found, str) else None

    def keep(self, identity: str, description: Mapping[str, Any]) -> None:
        self._said = {"id": identity, "log_every": description["log_every"]}
        if self._path is not None:
            replace_file(self._path, (json.dumps(self._said) + "\n").encode())

    def fits(self, points: Points, description: Mapping[str, Any]) -> bool:
        """Whether points that are made again are those that the store has; True where none are."""
        is_changed = description["is_changed"] or self._said.get("log_every") != description["log_every"]
        last = max((step for steps in points.values() for step in steps), default=0)
        return last <= description["step"] or not is_changed


def new_numbers(row: Row, points: Points) -> dict[str, float]:
    """The numbers of a row that the store does not have."""
    return {name: value for name, value in numbers_of(row).items() if row["step"] not in points.get(name, ())}
