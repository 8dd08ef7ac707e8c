"""Lines: progress as plain lines, for files, pipes and logs of machines. ASCII, no carriage returns, no colours."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TextIO

from instep.report.run_status import RunStatus
from instep.report.shortened import shorten
from instep.text import number

if TYPE_CHECKING:
    from instep.records import Evaluation

PAUSE_S = 5.0  # between two lines that nobody waits for


class Lines:
    """One line an evaluation and an epoch, and between them one every few seconds."""

    def __init__(self, status: RunStatus, stream: TextIO, *, pause_s: float = PAUSE_S) -> None:
        self._status = status
        self._stream: TextIO | None = stream
        self._pause_s = pause_s
        self._said_s = time.monotonic()

    def start(self) -> None:
        self._said_s = time.monotonic()

    def logged(self) -> None:
        if time.monotonic() - self._said_s >= self._pause_s:
            self._say_status(self._status.left())

    def epoch_ended(self) -> None:
        self._say_status()

    def evaluated(self, evaluation: Evaluation, *, best: bool) -> None:
        shown = shorten(evaluation, self._status.monitor)
        values = [f"{name} {number(evaluation[name])}" for name in shown.names]
        rest = shown.rest.replace("…", "...")
        self._say(*self._status.where(evaluation.step, evaluation.epoch), *values, rest, "best" if best else "")

    def note(self, text: str) -> None:
        self._say(f"note: {text}")

    def flush(self) -> None:
        """Nothing waits here."""

    def close(self, summary: str) -> None:
        if summary:
            self._say(summary)

    def _say_status(self, *more: str) -> None:
        self._say(*self._status.where(), *(text for _, text in self._status.numbers()), *more)

    def _say(self, *words: str) -> None:
        self._said_s = time.monotonic()
        if self._stream is None:
            return
        try:
            self._stream.write("  ".join(filter(None, words)) + "\n")
            self._stream.flush()
        except (OSError, ValueError):  # nobody reads any more: `… | head`. The run goes on.
            self._stream = None
