"""A run to look at, as `instep train` leaves it."""

import json
from pathlib import Path
from typing import Any

from cli.said import Instep


def trained(instep: Instep, *options: str, file: str = "my.py", folder: str = "runs/my") -> Path:
    """Train a file; the run that is left."""
    said = instep("train", file, "--folder", folder, "--no-progress", *options)
    assert said.code == 0, said.err
    return Path(folder)


def described(run: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((run / "run.json").read_text())
    return found


def describe(run: Path, **changes: object) -> None:
    """Change what a run says of itself; None takes a part out."""
    told = {name: value for name, value in (described(run) | changes).items() if value is not None}
    (run / "run.json").write_text(json.dumps(told))
