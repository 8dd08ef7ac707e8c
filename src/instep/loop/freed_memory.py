"""Freed memory stays with the process while it trains on a CPU: the next update needs just as much.

glibc hands the top of the heap back to the system whenever enough of it is free. Each update then gets the same pages anew, one
fault each, and the system clears them before use: a small convolutional network took 88 to 150 ms an update, whichever way
its memory happened to lie, and 88 to 103 ms when nothing was handed back. Blocks of 32 MB and more have a mapping each, and go
back to the system as ever; where one of them is larger than all that was kept, a process may hold more at its peak.
"""

import ctypes
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # of mallopt(3)
NEVER = -1
# The largest that glibc chooses by itself, once a program has freed blocks of that size: what holds after a training.
LARGEST_MMAP, LARGEST_TRIM = 32 << 20, 64 << 20
_SET_BY_USER = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_MMAP_MAX_", "MALLOC_TOP_PAD_")


class _Trainings:
    """How many are going on in this process: the heap is one for all."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.count = 0


_trainings = _Trainings()


@contextmanager
def keep_freed_memory(device: torch.device) -> Iterator[None]:
    """Inside, freed memory is kept for what comes next; afterwards glibc hands it back with the next large block that is freed.

    Nothing happens on an accelerator, without glibc, and where the user has set glibc's allocator by its environment variables.
    """
    set_option = _mallopt() if device.type == "cpu" else None
    if set_option is None:
        yield
        return
    trainings = _trainings
    with trainings.lock:
        trainings.count += 1
    try:
        set_option(MMAP_THRESHOLD, LARGEST_MMAP)  # setting one of the two ends glibc's own choice of both
        set_option(TRIM_THRESHOLD, NEVER)
        yield
    finally:
        with trainings.lock:
            trainings.count -= 1
            if trainings is _trainings and not trainings.count:  # else this is a forked process, which was told already
                set_option(TRIM_THRESHOLD, LARGEST_TRIM)


def _mallopt() -> Callable[[int, int], int] | None:
    """glibc's function that sets an option of its allocator, where it may be called."""
    if any(name in os.environ for name in _SET_BY_USER) or "glibc.malloc" in os.environ.get("GLIBC_TUNABLES", ""):
        return None
    try:
        if not os.confstr("CS_GNU_LIBC_VERSION"):
            return None
        return ctypes.CDLL(None).mallopt
    except (AttributeError, ValueError, OSError):  # another system, another C library
        return None


def _after_fork() -> None:
    """A process that loads data, or does something else of the user's, hands memory back."""
    global _trainings
    begun, _trainings = _trainings.count, _Trainings()
    set_option = _mallopt() if begun else None
    if set_option is not None:
        set_option(TRIM_THRESHOLD, LARGEST_TRIM)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
