"""How far a replay is, in a terminal: one line that is written over, and is gone at the end."""

import sys
import time
from types import TracebackType
from typing import TextIO

EVERY_S = 0.2
PATIENCE_S = 1.0  # what is over sooner is not worth a line


class StepCounter:
    """To be entered; `count(step)` after each update."""

    def __init__(self, start: int, last: int, *, stream: TextIO | None = None) -> None:
        self._last = last
        self._stream = sys.stderr if stream is None else stream
        self._is_shown = self._stream.isatty()
        self._next_s = time.monotonic() + PATIENCE_S
        self._width = 0
        self._start = start

    def __enter__(self) -> "StepCounter":
        return self

    def count(self, step: int) -> None:
        now = time.monotonic()
        if self._is_shown and now >= self._next_s:
            self._write(f"replaying from step {self._start:,} to {self._last:,}: step {step:,}")
            self._next_s = now + EVERY_S

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._width:
            self._write("")

    def _write(self, text: str) -> None:
        self._stream.write(f"\r{' ' * self._width}\r{text}")
        self._stream.flush()
        self._width = len(text)
