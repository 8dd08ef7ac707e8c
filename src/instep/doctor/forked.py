"""Forked work: done in a copy of this process, so that nothing of it can be seen here.

A forward may write to anything: its input, a list of the script's, a generator of random numbers that nobody else knows of.
"""

import contextlib
import os
import pickle
import select
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NoReturn, TypeVar

import torch

LONGEST_S = 120.0  # for a copy that hangs; others take as long as a forward or two, on a busy machine too
T = TypeVar("T")


def can_fork() -> bool:
    """Whether a copy of this process can work: not where an accelerator is in use, which a copy cannot share.

    Nor where the script has a handler for SIGCHLD, which would be called when the copy ends.
    """
    if sys.platform != "linux" or torch.cuda.is_initialized() or torch.xpu.is_initialized():
        return False
    handler = signal.getsignal(signal.SIGCHLD)  # torch and Instep set some of their own, for the workers of a loader
    known = handler is None or isinstance(handler, signal.Handlers)
    return known or (getattr(handler, "__module__", None) or "").startswith(("torch.", "instep.", "asyncio"))


def run_forked(work: Callable[[], T]) -> T | None:
    """What `work` gives, done in a copy of this process; None where that failed. Raises TimeoutError where it hangs."""
    reading, writing = os.pipe()
    try:
        with _silence():
            pid = os.fork()
    except OSError:  # no memory for another process
        os.close(reading)
        os.close(writing)
        return None
    if pid == 0:
        _answer(work, writing)
    os.close(writing)
    try:
        said = _read(reading)
        answer: T | None = pickle.loads(said) if said else None
        return answer
    finally:
        os.close(reading)
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(OSError):
            os.waitpid(pid, 0)


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """No warning of threads, which a copy has none of.

    Not by `catch_warnings`: it makes Python forget which warnings it has shown, and those of the script come again.
    """
    nothing: Any = ("ignore", None, Warning, None, 0)
    filters: list[Any] = warnings.filters  # type: ignore[assignment]
    filters.insert(0, nothing)
    try:
        yield
    finally:
        filters.remove(nothing)


def _answer(work: Callable[[], T], writing: int) -> NoReturn:
    try:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        _silence_files(besides=writing)
        torch.set_num_threads(1)  # the others have stayed behind
        with os.fdopen(writing, "wb") as out:
            out.write(pickle.dumps(work()))
    finally:
        os._exit(0)


def _silence_files(besides: int) -> None:
    """What a forward writes to the terminal, to a log or to another process is written to nowhere."""
    import fcntl  # not on every system, as forking is

    silence = os.open(os.devnull, os.O_WRONLY)
    for number in map(int, os.listdir("/proc/self/fd")):
        if number in (besides, silence):
            continue
        with contextlib.suppress(OSError):  # the one that has listed them
            if fcntl.fcntl(number, fcntl.F_GETFL) & os.O_ACCMODE != os.O_RDONLY:
                os.dup2(silence, number)


def _read(reading: int) -> bytes:
    said = b""
    while select.select([reading], [], [], LONGEST_S)[0]:
        part = os.read(reading, 1 << 16)
        if not part:
            return said
        said += part
    raise TimeoutError(f"a forward in a copy of this process did not end within {LONGEST_S:g} s")
