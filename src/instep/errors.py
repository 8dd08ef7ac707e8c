"""What can go wrong, in one tree.

    InstepError                 everything that Instep raises on purpose
    ├── DescriptionError        what was passed in does not make sense (also a ValueError)
    │   └── ChangedRun          a folder holds a run with another description
    ├── ObjectiveError          what a loss or objective returned cannot be trained on
    ├── DataError               a sample or a batch cannot be loaded
    ├── UpdateError             an update cycle or a Trainer was used out of order
    ├── NonFiniteLoss           a loss is inf or nan
    ├── NonFiniteGradient       a gradient is inf or nan, though the loss is not
    ├── OutOfMemory             something does not fit in memory, and is not or cannot be split (also a MemoryError)
    ├── PeerError               another process of a run was lost, or does not do the same
    ├── FolderError             a run folder cannot be made, written or read, or is in use
    └── CheckpointError         a checkpoint cannot be written, or is damaged

    Interrupted                 a run was stopped by Ctrl-C or SIGTERM after a whole update (a KeyboardInterrupt)
    Notice                      a warning: something the user should know once, nothing is wrong with the run

>>> from instep import OneCycle, errors
>>> try:
...     OneCycle(max_lr=-1)
... except errors.InstepError as error:
...     print(type(error).__name__)
DescriptionError
"""

import atexit
import contextlib
import errno
import os
import signal
import sys
import sysconfig
import threading
import warnings
from functools import cache
from pathlib import Path
from types import TracebackType

_PACKAGE = Path(__file__).resolve().parent
_RECIPES = _PACKAGE / "cli" / "recipes"  # trained like a user's file, so its lines are shown like theirs


class InstepError(Exception):
    """Base of everything that Instep raises on purpose."""


class DescriptionError(InstepError, ValueError):
    """What was passed in does not make sense; said before the first step."""


class ChangedRun(DescriptionError):
    """A folder holds a run with another description: `changes` shows both sides, `names` are what allow_changes= would take."""

    def __init__(self, message: str, *, changes: str = "", names: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.changes = changes
        self.names = names


class ObjectiveError(InstepError):
    """What a loss or an objective got or returned cannot be trained on; `row` is a sample in the micro-batch that is to blame."""

    def __init__(self, message: str, *, row: int | None = None) -> None:
        super().__init__(message)
        self.row = row


class DataError(InstepError):
    """A sample or a batch cannot be loaded; names the sample, and the user's own line where there is one."""


class UpdateError(InstepError):
    """An update cycle was used out of order."""


class NonFiniteLoss(InstepError):
    """A loss is inf or nan; `late` is how many updates later that was noticed, `elsewhere` where it is another process's.

    `step` is the update, where a run stopped.
    """

    def __init__(self, message: str, *, late: int = 0, elsewhere: bool = False, step: int | None = None) -> None:
        super().__init__(message)
        self.late = late
        self.elsewhere = elsewhere
        self.step = step


class NonFiniteGradient(InstepError):
    """A gradient is inf or nan, though the loss is not; `step` is the update, where a run stopped."""

    def __init__(self, message: str, *, step: int | None = None) -> None:
        super().__init__(message)
        self.step = step


class OutOfMemory(InstepError, MemoryError):
    """Something does not fit in memory; where splitting it would help, that is said."""


class PeerError(InstepError):
    """Another process of the run was lost, or does something else than this one."""


class FolderError(InstepError):
    """A run folder cannot be made, written or read."""


class CheckpointError(InstepError):
    """A checkpoint cannot be kept, written or read."""


class Interrupted(KeyboardInterrupt):
    """A run was stopped from outside, after a whole update; `signal` is the number of the signal that asked for it.

    Its `folder` has everything to go on from; a run without one has kept nothing.
    """

    def __init__(self, signal: int, step: int, folder: Path | None = None) -> None:
        said = f"stopped by {signal_name(signal)} after {step:,} update{'' if step == 1 else 's'}"
        super().__init__(
            f"{said}; without folder= nothing is kept, so a new start begins at the first update."
            if folder is None
            else f"{said}, all of them kept in {folder}: start it again, and it goes on from there."
        )
        self.signal = signal
        self.step = step


def signal_name(number: int) -> str:
    """What people call a signal: "Ctrl-C", "SIGTERM"."""
    return "Ctrl-C" if number == signal.SIGINT else signal.Signals(number).name


def end_by_signal(number: int) -> None:
    """Let the process die of this signal once it has cleaned up, as one does that did not handle it.

    Then a shell ends the loop or script that started it, which an exit code of 130 does not tell it.
    """

    def die() -> None:
        atexit.unregister(die)
        atexit._run_exitfuncs()  # those of all others: this one runs first, and none comes after it
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError, AttributeError):
                stream.flush()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    if sys.platform != "win32":
        atexit.register(die)


def die_if_uncaught(stop: Interrupted) -> Interrupted:
    """The same error; where nobody catches it, the process dies of its signal. Python does so for KeyboardInterrupt itself."""
    shown = sys.excepthook

    def show(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        shown(kind, error, trace)
        if error is stop and threading.current_thread() is threading.main_thread():
            end_by_signal(stop.signal)

    if not (hasattr(sys, "ps1") or sys.flags.interactive):  # where the process lives on after an error
        sys.excepthook = show
    return stop


def explain_write(error: OSError, folder: Path) -> str:
    """Why a file of a run could not be written to its folder, and what to do."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"the disk of {folder} is full. Free some space and start again: the run goes on from its newest checkpoint."
    return f"{error.strerror or error}."


class Notice(UserWarning):
    """Something the user should know once."""


def give_notice(text: str) -> None:
    """Warn with a Notice that points at the line, outside of Instep, from which it came."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and is_instep_file(frame.f_code.co_filename):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, Notice, stacklevel=level)


@cache
def is_instep_file(filename: str) -> bool:
    """Whether the code in this file is Instep's."""
    path = Path(filename).resolve()
    return path.is_relative_to(_PACKAGE) and not path.is_relative_to(_RECIPES)


@cache
def is_user_file(filename: str) -> bool:
    """Whether the code in this file is the user's: neither Instep's nor installed nor Python's own."""
    if filename.startswith("<") or is_instep_file(filename):
        return filename.startswith("<ipython")
    path = Path(filename).resolve()
    libraries = {Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    return path.is_relative_to(_RECIPES) or not any(path.is_relative_to(library) for library in libraries)
