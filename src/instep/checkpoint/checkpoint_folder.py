"""The folder `checkpoints/` of a run: what is in it, what its labels LATEST and BEST name, and what may go.

A checkpoint gets its name by one rename after it is whole, so every `step-…` is complete. The labels are for people; the newest
and its best are found by looking, since a process may die between the rename and the label.
"""

import os
import re
import shutil
import stat
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Literal

from instep.checkpoint import manifest
from instep.checkpoint.durable import ASIDE, GONE, WRITING, discard, replace_file
from instep.checkpoint.manifest import MANIFEST, Manifest
from instep.errors import CheckpointError

LATEST, BEST = "LATEST", "BEST"
PASSED_OVER = "passed-over-"
_NAME = re.compile(r"step-(\d{8,15})")


def step_name(step: int) -> str:
    return f"step-{step:08d}"


def steps(folder: Path) -> list[int]:
    """The steps of which there is a checkpoint, the oldest first; none where there is no folder."""
    try:
        names = os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise CheckpointError(f"{folder} cannot be read: {error.strerror}.") from None
    found = {step_of(name.removeprefix(ASIDE)) for name in names}
    return sorted(step for step in found if step is not None)


def step_of(name: str) -> int | None:
    """The step in a checkpoint's name; None for any other name."""
    match = _NAME.fullmatch(name)
    step = int(match[1]) if match else None
    return step if step is not None and step_name(step) == name else None


def path_of(folder: Path, step: int) -> Path:
    """Where the checkpoint of a step is: a process that died while it replaced one has left the old one aside."""
    place = folder / step_name(step)
    aside = folder / f"{ASIDE}{place.name}"
    return aside if aside.exists() and not place.exists() else place


def locate(folder: Path, which: Literal["latest", "best"] | int) -> Path:
    """Where a checkpoint is; an error says which ones there are."""
    there = steps(folder)
    if which == "latest" and there:
        return path_of(folder, there[-1])
    wanted = best_step(folder) if which == "best" else which
    if type(wanted) is int and wanted in there:
        return path_of(folder, wanted)
    has = f"it has {', '.join(map(str, there))}" if there else "it has none"
    raise CheckpointError(f"{folder} has no checkpoint {which!r}; {has}.")


def read_manifest(path: Path) -> Manifest:
    """What a checkpoint says of itself; its files are not looked at."""
    size = regular_size(path / MANIFEST)
    if size > manifest.LIMIT_BYTES:
        raise CheckpointError(f"{MANIFEST} has {size:,} bytes")
    found = manifest.parse((path / MANIFEST).read_bytes())
    if found.step != step_of(path.name.removeprefix(ASIDE)):
        raise CheckpointError(f"{MANIFEST} is that of step {found.step}")
    return found


def regular_size(path: Path) -> int:
    """The size of a file; a link, a pipe (which would be waited for) or a device in its place is refused unopened."""
    found = os.lstat(path)
    if not stat.S_ISREG(found.st_mode):
        raise CheckpointError(f"{path.name} is not a regular file")
    return found.st_size


def best_step(folder: Path) -> int | None:
    """The best step that the newest checkpoint knows of, past those whose manifest is damaged. Its files are not looked at."""
    for step in reversed(steps(folder)):
        with suppress(OSError, CheckpointError):
            return read_manifest(path_of(folder, step)).best
    return None


def write_labels(folder: Path, newest: Manifest | None = None) -> None:
    """Make LATEST and BEST say which checkpoints there are. Not synced: nothing goes by them, and the next run mends them.

    Who knows the newest spares looking through a folder of many.
    """
    there = steps(folder) if newest is None else [newest.step]
    best = best_step(folder) if newest is None else newest.best
    for name, step in ((LATEST, there[-1] if there else None), (BEST, best)):
        if step is not None and _read_label(folder, name) != step:
            replace_file(folder / name, f"{step_name(step)}\n".encode("ascii"), is_synced=False)


def set_aside_later(folder: Path, newest: int) -> None:
    """Move out of the way what is later than the checkpoint just written: the run went on from an earlier one.

    Those are damaged, or of a stretch that somebody went back from. They stay to be looked at, as `passed-over-step-…`.
    """
    if (latest := _read_label(folder, LATEST)) is not None and latest <= newest:
        return  # the label was right when the writer began, and each checkpoint since then has renewed it
    for step in [step for step in steps(folder) if step > newest]:
        path = path_of(folder, step)
        target = folder / f"{PASSED_OVER}{step_name(step)}"
        discard(target)
        os.rename(path, target)


def delete_old(folder: Path, keep: int | None, *, also: Collection[int] = (), dropped: Collection[int] = ()) -> None:
    """Delete all but the last `keep`, those named, and the best that each of the last knows: whichever is resumed finds it.

    What is `dropped` goes first, and does not count.
    """
    for step in dropped:
        discard(path_of(folder, step))
    if keep is None:
        return
    there = steps(folder)
    last = there[-keep:]
    kept = {*last, *also}
    kept |= {best for step in last if (best := _best_of(path_of(folder, step))) is not None}
    for step in there:
        if step not in kept:
            discard(path_of(folder, step))


def clean_up(folder: Path) -> None:
    """Clean up after a process that died: what was half written or half deleted goes, what was moved aside comes back.

    Only for the one process that writes to the run.
    """
    for path in sorted(folder.iterdir()):
        if path.name.startswith((WRITING, GONE)):
            shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)
        elif path.name.startswith(ASIDE) and step_of(path.name.removeprefix(ASIDE)) is not None:
            place = folder / path.name.removeprefix(ASIDE)
            discard(path) if place.exists() else os.rename(path, place)


def _best_of(path: Path) -> int | None:
    try:
        return read_manifest(path).best
    except (OSError, CheckpointError):
        return None  # a damaged one knows nothing


def _read_label(folder: Path, name: str) -> int | None:
    try:
        regular_size(folder / name)
        with open(folder / name, encoding="ascii") as file:
            return step_of(file.read(64).strip())
    except (OSError, ValueError, CheckpointError):
        return None
