"""Ctrl-C and SIGTERM: asked to stop, a run finishes its update first; asked twice, it stops at once."""

import contextlib
import os
import signal
import sys
import threading
from types import FrameType, TracebackType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupt:
    """While it is entered, the signals are noted instead of obeyed; only in the main thread, and put back afterwards."""

    def __init__(self) -> None:
        self.signal: int | None = None  # what asked to stop
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "Interrupt":
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._note) for number in SIGNALS}
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)
        self._before = {}

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.signal is not None:
            raise KeyboardInterrupt
        self.signal = number
        # Straight to the descriptor: the handler may have interrupted a print in its middle.
        with contextlib.suppress(OSError, ValueError, AttributeError):
            os.write(sys.stderr.fileno(), b"\ninstep: stopping after this update; once more stops at once.\n")
