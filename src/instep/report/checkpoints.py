"""The checkpoints of a run, as a listing of their folder tells them: names and sizes, nothing of what is in them is read."""

import os
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from instep.text import age, columns, size

FOLDER, LATEST, BEST = "checkpoints", "LATEST", "BEST"
_NAME = re.compile(r"step-(\d{8,15})")


@dataclass(frozen=True)
class Kept:
    """A checkpoint that a run keeps."""

    step: int
    size_bytes: int
    written_s: float  # since 1970
    is_best: bool
    is_latest: bool


def find_checkpoints(run: Path) -> list[Kept]:
    """The checkpoints of a run, the oldest first; none where it has none, or they cannot be listed."""
    folder = run / FOLDER
    found: dict[int, Path] = {}
    with suppress(OSError):
        for path in folder.iterdir():
            if (match := _NAME.fullmatch(path.name)) and path.is_dir():
                found[int(match[1])] = path
    best, latest = _labelled(folder / BEST), max(found, default=None)
    kept = []
    for step, path in sorted(found.items()):
        with suppress(OSError):  # a run that is going on deletes old ones
            files = [entry.stat(follow_symlinks=False) for entry in os.scandir(path)]
            written_s = max((file.st_mtime for file in files), default=path.stat().st_mtime)
            kept.append(Kept(step, sum(file.st_size for file in files), written_s, step == best, step == latest))
    return kept


def lines(kept: list[Kept], now_s: float) -> list[str]:
    """A line for each, with whether it is the best or the latest."""
    rows = [
        (
            f"{one.step:,}",
            size(one.size_bytes),
            age(now_s - one.written_s),
            ", ".join(word for word, is_it in (("best", one.is_best), ("latest", one.is_latest)) if is_it),
        )
        for one in kept
    ]
    return columns(("checkpoint", "size", "age", ""), rows, left=("",)) if rows else []


def _labelled(label: Path) -> int | None:
    """The step that a label names."""
    with suppress(OSError, ValueError), open(label, encoding="ascii") as file:
        match = _NAME.fullmatch(file.read(64).strip())
        return int(match[1]) if match else None
    return None
