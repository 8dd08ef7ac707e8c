"""Unsteady calls: what the user's code calls that gives another answer each time or in each process: the clock, entropy, ids.

Python itself says which built-in functions are called (`sys.setprofile`), and from which line.
"""

import os
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, NamedTuple

from instep.errors import is_instep_file, is_user_file
from instep.proof.draws import user_line

CLOCK, ENTROPY, PROCESS = "clock", "entropy", "process"
_CLOCKS = {time.time, time.time_ns, time.monotonic, time.monotonic_ns, time.perf_counter, time.perf_counter_ns, time.localtime}
_CLOCKS |= {time.gmtime, time.strftime, time.ctime, time.process_time}
_ENTROPY = {os.urandom, getattr(os, "getrandom", os.urandom), getattr(uuid, "_generate_time_safe", None) or os.urandom}
_OF_PROCESS = {os.getpid, hash, id}


class UnsteadyCall(NamedTuple):
    """One call: its kind, how it is called, and the user's line."""

    kind: str
    name: str
    line: str


class UnsteadyCalls:
    """Those that were seen, each once."""

    def __init__(self) -> None:
        self.seen: dict[UnsteadyCall, None] = {}

    def of(self, *kinds: str) -> list[UnsteadyCall]:
        return [call for call in self.seen if call.kind in kinds]

    @contextmanager
    def watching(self) -> Iterator["UnsteadyCalls"]:
        """Inside, calls from this thread are noted."""
        before = sys.getprofile()
        sys.setprofile(self._look)
        try:
            yield self
        finally:
            sys.setprofile(before)

    def _look(self, frame: FrameType, event: str, called: Any) -> None:
        if event != "c_call":
            return
        kind = _kind(called)
        if kind is None or (kind != ENTROPY and not is_user_file(frame.f_code.co_filename)):
            return  # libraries look at the clock for their own purposes
        line = _line_of_caller(frame)
        if line:
            self.seen.setdefault(UnsteadyCall(kind, _name(called, frame), line))


def _line_of_caller(frame: FrameType | None) -> str:
    """The user's line that the call comes from; "" where Instep made it for its own purposes."""
    while frame is not None:
        if is_user_file(frame.f_code.co_filename):
            return user_line(frame)
        if is_instep_file(frame.f_code.co_filename):
            return ""
        frame = frame.f_back
    return ""


def _kind(called: Any) -> str | None:
    try:
        if called in _CLOCKS:
            return CLOCK
        if called in _ENTROPY:
            return ENTROPY
        if called in _OF_PROCESS:
            return PROCESS
    except TypeError:  # what cannot be hashed
        return None
    name, owner = getattr(called, "__name__", ""), getattr(called, "__self__", None)
    if name in ("now", "utcnow", "today") and isinstance(owner, type) and owner.__module__ == "datetime":
        return CLOCK
    return ENTROPY if name == "seed" and type(owner).__name__ == "Generator" else None


def _name(called: Any, frame: FrameType) -> str:
    """How the user would recognise it: a generator without a seed asks the system for entropy."""
    owner = getattr(called, "__self__", None)
    module = owner.__name__ if isinstance(owner, type) else getattr(called, "__module__", None) or ""
    if called in _ENTROPY and not is_user_file(frame.f_code.co_filename):
        return "a generator without a seed"
    return f"{module}.{called.__name__}()".removeprefix("builtins.").replace("posix.", "os.")
