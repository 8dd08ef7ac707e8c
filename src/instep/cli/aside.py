"""Room for another run: `--fresh` moves the old one aside, `--new` leaves it and takes a new folder. Nothing is ever deleted."""

import os
import time
from pathlib import Path

from instep.cli.border import WrongUse
from instep.errors import FolderError
from instep.run.lock import Lock
from instep.run.run_files import DESCRIPTION


def move_aside(folder: Path, *, what: str = "run", file: str = DESCRIPTION) -> Path | None:
    """Rename the folder of a run, or of something else that has this file; it gets the time of its last line as an ending.

    Returns where it is now; None where there was none.
    """
    if not folder.exists():
        return None
    description = folder / file
    if not description.exists():
        if folder.is_dir() and not any(folder.iterdir()):
            return None
        raise WrongUse(f"{folder} holds no {what} ({file} is missing), so --fresh leaves it alone; use another --folder.")
    lock = Lock(folder)
    try:
        lock.take()  # a run that goes on there would go on writing to the new one
    except FolderError as error:
        raise WrongUse(str(error)) from None
    finally:
        lock.release()
    ending = time.strftime("%Y-%m-%d-%H%M%S", time.localtime(description.stat().st_mtime))
    aside = _free(folder.resolve().parent / f"{folder.resolve().name}.{ending}")
    try:
        os.rename(folder, aside)
    except OSError as error:
        raise WrongUse(f"{folder} cannot be moved aside to {aside}: {error.strerror}.") from None
    return folder.parent / aside.name


def new_folder(folder: Path) -> Path:
    """The folder itself where nothing is in it, or else with the first number from 2 on that is free: runs/train-2."""
    is_empty = folder.is_dir() and not any(folder.iterdir())
    return folder if is_empty else _free(folder)


def _free(path: Path) -> Path:
    """The path itself, or with the first number from 2 on that is free."""
    numbered, count = path, 1
    while numbered.exists():
        count += 1
        numbered = path.with_name(f"{path.name}-{count}")
    return numbered
