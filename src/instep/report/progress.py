"""Progress: how a run is shown while it trains. It listens, and touches neither random state nor the model.

What there is to say is kept in `run_status`; `terminal` and `notebook` draw it live, `lines` writes it line by line.
"""

from __future__ import annotations

import os
import random
import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol, TextIO

from instep.report.lines import Lines
from instep.report.run_status import RunStatus

if TYPE_CHECKING:
    from instep.records import Evaluation, Logged, Plan


class Display(Protocol):
    """A way to show a `RunStatus`."""

    def start(self) -> None: ...
    def logged(self) -> None: ...
    def evaluated(self, evaluation: Evaluation, *, best: bool) -> None: ...
    def epoch_ended(self) -> None: ...
    def note(self, text: str) -> None: ...
    def flush(self) -> None: ...
    def close(self, summary: str) -> None: ...


class Silent:
    """Shows nothing."""

    def start(self) -> None: ...
    def logged(self) -> None: ...
    def evaluated(self, evaluation: Evaluation, *, best: bool) -> None: ...
    def epoch_ended(self) -> None: ...
    def note(self, text: str) -> None: ...
    def flush(self) -> None: ...
    def close(self, summary: str) -> None: ...


class Progress:
    """What a run tells, from `start` to `close`.

        with progress(None, plan) as shown:
            shown.start(step)
            …
            shown.advance(step, epoch)

    Leaving the block closes it, whatever happened, and puts the terminal back as it was.
    """

    def __init__(self, status: RunStatus, display: Display) -> None:
        self.display = display
        self.says_end = True  # False: whoever shows it sums up a run that came to its end
        self._status = status
        self._open = False

    def start(self, step: int = 0, epoch: int = 0, *, before_s: float = 0.0, best: Evaluation | None = None) -> None:
        """The run begins, or goes on, after `step` update cycles that took `before_s`."""
        self._status.step = self._status.first_step = step
        self._status.epoch = epoch
        self._status.before_s, self._status.best = before_s, best
        self._status.started_s = time.monotonic()
        self._open = True
        self.display.start()

    def advance(self, step: int, epoch: int) -> None:
        """`step` update cycles have begun. Called after each: two assignments, nothing is drawn."""
        self._status.step = step
        self._status.epoch = epoch

    def go_on_to(self, stop: int) -> None:
        """The run ends at another step than was planned: a further cycle."""
        plan = self._status.plan
        self._status.plan = replace(plan, total_steps=stop, epochs=-(-stop // plan.steps_per_epoch))

    def logged(self, logged: Logged) -> None:
        self._status.logged = logged
        self._status.skipped += logged.skipped
        self.display.logged()

    def evaluated(self, evaluation: Evaluation, *, best: bool) -> None:
        self._status.evaluation = evaluation
        if best:
            self._status.best = evaluation
        self.display.evaluated(evaluation, best=best)

    def epoch_ended(self) -> None:
        """An epoch without an evaluation at its end, which would say it."""
        self.display.epoch_ended()

    def tested(self, evaluation: Evaluation) -> None:
        """The numbers of the test data, at the end."""
        self._status.tested = evaluation
        self.display.evaluated(evaluation, best=False)

    def note(self, text: str) -> None:
        """Something to be said once, in a line of its own."""
        self.display.note(text)

    def remark(self, text: str) -> None:
        """Something about a run that does not start: nothing else is shown of it."""
        self.display.note(text)
        self.display.flush()

    def close(self, reason: str = "finished", why: str = "") -> None:
        """The end, how and why; says nothing of a run that did not start, or was closed before."""
        if self._open:
            self._open = False
            is_said = self.says_end or reason not in ("finished", "stopped")
            self.display.close(self._status.summary(reason, why) if is_said else "")

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close(_reason(kind))


def progress(choice: bool | None, plan: Plan, *, stream: TextIO | None = None) -> Progress:
    """The way to show a run on `stream`: live in a terminal, in lines elsewhere, not at all where `choice` is False.

    Without a stream that is stderr, and in a notebook the output of the cell.
    """
    status = RunStatus(plan)
    if choice is not False and stream is None and is_notebook():
        from instep.report.notebook import Notebook

        return Progress(status, Notebook(status))
    stream = sys.stderr if stream is None else stream
    if choice is False or stream is None:  # there is no stderr under pythonw
        return Progress(status, Silent())
    if not stream.isatty() or os.environ.get("TERM", "") in ("dumb", "unknown"):
        return Progress(status, Lines(status, stream))
    return Progress(status, _terminal(status, stream))


def is_notebook() -> bool:
    """Whether this process is the kernel of a notebook. It has imported IPython then; nobody else need do so to be asked."""
    get_ipython = getattr(sys.modules.get("IPython"), "get_ipython", None)
    return get_ipython is not None and getattr(get_ipython(), "kernel", None) is not None


def _terminal(status: RunStatus, stream: TextIO) -> Display:
    """The live display: 70 ms of importing rich, which draws a number from Python's generator. That one is put back."""
    state = random.getstate()
    try:
        from instep.report.terminal import Terminal
    finally:
        random.setstate(state)
    return Terminal(status, stream)


def _reason(kind: type[BaseException] | None) -> str:
    if kind is None:
        return "finished"
    if issubclass(kind, KeyboardInterrupt):
        return "interrupted"
    return "stopped" if issubclass(kind, GeneratorExit) else "failed"
