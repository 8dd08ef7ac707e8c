"""Ctrl-C and SIGTERM: asked to stop, a run finishes its update or evaluation first; asked twice, it stops at once.

All processes stop after the same update: a signal to one of them travels with the counts of the next update.
"""

import _thread
import contextlib
import signal
import sys
import threading
from types import FrameType, TracebackType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)

AFTER_UPDATE = "stopping after this update; once more stops at once."
AFTER_EVALUATION = "stopping after this evaluation; once more stops at once."
# A checkpoint stands after its evaluation, so that a resumed run has all of its history.
AFTER_UNSAVED = "stopping after this evaluation; once more stops at once, and the updates since the last checkpoint are lost."


class Interrupt:
    """While it is entered, the signals are noted instead of obeyed; only in the main thread, and put back afterwards."""

    def __init__(self) -> None:
        self.signal: int | None = None  # what asked to stop
        self.answer = AFTER_UPDATE  # what is said to whoever asks
        self._before: dict[int, Any] = {}
        self._saying = _thread.allocate_lock()  # held while it is said

    def __enter__(self) -> "Interrupt":
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._note) for number in SIGNALS}
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)
        self._before = {}
        self._saying.acquire(timeout=1.0)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.signal is not None:
            raise KeyboardInterrupt
        self.signal = number
        # In a thread, which can wait: the handler may have interrupted a print, or a drawing of the progress, in its middle.
        self._saying.acquire(blocking=False)
        _thread.start_new_thread(self._say, (self.answer,))

    def _say(self, answer: str) -> None:
        with contextlib.suppress(OSError, ValueError, AttributeError):
            print(f"\ninstep: {answer}", file=sys.stderr, flush=True)
        with contextlib.suppress(RuntimeError):
            self._saying.release()


class Stopping:
    """What is asked of one process, and what all of them have heard."""

    def __init__(self) -> None:
        self._interrupt: AgreedInterrupt | None = None

    def interrupt(self) -> "AgreedInterrupt":
        """Notes signals to this process; its `signal` is what all processes know of."""
        self._interrupt = AgreedInterrupt()
        return self._interrupt

    def flags(self, lacking: bool) -> list[float]:
        """Whether a gradient is lacking here, and each signal."""
        asked = None if self._interrupt is None else self._interrupt.noted
        return [float(lacking), *(float(asked == number) for number in SIGNALS)]

    def take(self, totals: list[float]) -> bool:
        """Whether some process lacks a gradient; notes the signals that some process has heard."""
        lacking, *signals = totals
        self._agree(signals)
        return bool(lacking)

    def _agree(self, signals: list[float]) -> None:
        heard = [number for number, count in zip(SIGNALS, signals, strict=True) if count]
        if heard and self._interrupt is not None:
            self._interrupt.signal = signal.SIGTERM if signal.SIGTERM in heard else heard[0]


class AgreedInterrupt(Interrupt):
    """`noted` is what asked this process to stop; `signal` what all of them stop for."""

    def __init__(self) -> None:
        super().__init__()
        self.noted: int | None = None

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.noted is not None:
            raise KeyboardInterrupt
        self.noted = number
