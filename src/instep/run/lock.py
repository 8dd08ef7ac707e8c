"""The lock of a run folder: one process at a time. The system lets go of it when the process ends, however it ends."""

import contextlib
import os
import time
from pathlib import Path
from typing import IO

from instep.errors import FolderError, explain_write

NAME = "lock"
TRIES, WAIT_S = 5, 0.02  # whoever looks whether a lock is held holds it for a moment


class Lock:
    """Held from `take` to `release`."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / NAME
        self._file: IO[str] | None = None

    def take(self) -> None:
        """Raises where another process (or another Trainer of this one) trains in the folder."""
        try:
            file = open(self._path, "a+", encoding="utf-8")  # noqa: SIM115  # it stays open as long as the lock is held
        except OSError as error:
            raise FolderError(f"{self._path.parent} cannot be written to: {explain_write(error, self._path.parent)}") from None
        try:
            _lock_soon(file)
        except OSError:
            file.seek(0)
            holder = file.read().strip() or "another process"
            file.close()
            raise FolderError(
                f"{self._path.parent} is in use by {holder}; wait for it, stop it, or use another folder."
            ) from None
        try:
            file.truncate(0)
            file.write(f"process {os.getpid()}")
            file.flush()
        except OSError as error:  # nothing of it is lost but who holds it
            with contextlib.suppress(OSError):
                file.close()
            raise FolderError(f"{self._path.parent} cannot be written to: {explain_write(error, self._path.parent)}") from None
        self._file = file

    def release(self) -> None:
        if self._file is not None:
            self._file.close()  # and with it the lock
            self._file = None


def _lock_soon(file: IO[str]) -> None:
    for _ in range(TRIES - 1):
        with contextlib.suppress(OSError):
            return _lock(file)
        time.sleep(WAIT_S)
    return _lock(file)


try:
    import fcntl

    def _lock(file: IO[str]) -> None:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def is_locked(folder: Path) -> bool:
        """Whether somebody trains in a folder now, as far as this machine knows. Writes nothing."""
        try:
            with open(folder / NAME, encoding="utf-8") as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:  # no lock, or a file system without them
            return False
        return False

except ImportError:  # Windows
    import msvcrt

    def _lock(file: IO[str]) -> None:
        """A byte far behind the text, so that others can still read who holds it."""
        file.seek(1 << 20)
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
        file.seek(0)

    def is_locked(folder: Path) -> bool:
        """Never: two that look at the same time would be in each other's way."""
        return False
