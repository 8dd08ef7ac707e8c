"""The logbook: what a run says while it goes: lines of the log, evaluations, progress, and the history that keeps them.

Losses are added up unread; the device is asked once a line.
"""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from instep.folder import RunFolder
from instep.history import History, HistoryFile
from instep.records import Evaluation, Logged, Pace, Plan, Update
from instep.report.progress import Progress, progress
from instep.sizes import require_whole
from instep.window import Mean, read


class Logbook:
    """Opened when a run begins or goes on, closed when it ends or pauses."""

    def __init__(self, history: History, *, log_every: int, waited_s: Callable[[], float], show: bool | None) -> None:
        require_whole("log_every", log_every, least=1)
        self._history = history
        self._log_every = log_every
        self._waited_s = waited_s  # how long the run has waited for data so far
        self.show = show
        self._progress: Progress | None = None
        self._folder: RunFolder | None = None
        self._file: HistoryFile | None = None
        self._window: list[Update] = []
        self._since_evaluation = Mean()
        self._extra: dict[str, float] = {}
        self._begun = self._line_begun = time.perf_counter()
        self._line_waited = 0.0

    def open(self, plan: Plan, step: int, folder: Path | None, description: Callable[[], Mapping[str, Any]]) -> None:
        """Begin to show and to write; the folder is made here, when the first update is about to run."""
        if folder is not None and self._folder is None:
            self._folder = RunFolder(folder)
            self._folder.create(description())
            self._file = HistoryFile(self._folder.history)
        self._progress = progress(self.show, plan)
        self._progress.start(step)
        for note in plan.notes:
            self._progress.note(note)
        self._begun = time.perf_counter()
        self._restart_line()

    def close(self, state: str, step: int) -> None:
        if self._folder is not None:
            self._folder.set_status(state, step)
        if self._progress is not None:
            self._progress.close(state)
            self._progress = None

    def updated(self, update: Update, *, line_due: bool) -> None:
        """Take in an update; a line is written every `log_every` updates, and where one is due."""
        self._window.append(update)
        if self._progress is not None:
            self._progress.advance(update.step + 1, update.epoch)
        if line_due or len(self._window) >= self._log_every:
            self._write_line(update)

    def evaluated(self, evaluation: Evaluation, *, best: bool) -> Evaluation:
        """Take in an evaluation; returned with the training loss since the one before it."""
        train = self._since_evaluation.value()
        self._since_evaluation = Mean()
        numbers = dict(evaluation) if train is None else {"train/loss": train, **evaluation}
        evaluation = Evaluation(numbers, evaluation.step, evaluation.epoch)
        self._keep(self._history.add_evaluation(evaluation, seconds=time.perf_counter() - self._begun))
        if self._progress is not None:
            self._progress.evaluated(evaluation, best=best)
        self._restart_line()  # the time of an evaluation is not the next line's
        return evaluation

    def log(self, values: Mapping[str, float]) -> None:
        """Numbers of the user's own, for the next line."""
        self._extra |= {name: float(value) for name, value in values.items()}

    def _write_line(self, update: Update) -> None:
        loss, grad_norm = read(self._window)
        self._since_evaluation.add(loss.weighted, loss.count)
        line = Logged(
            step=update.step + 1,
            epoch=update.epoch,
            loss=loss.value(),
            lr=update.lr,
            grad_norm=grad_norm,
            skipped=sum(update.skipped for update in self._window),
            extra=self._extra,
            pace=self._pace(),
        )
        self._keep(self._history.add_update(line))
        if self._progress is not None:
            self._progress.logged(line)
        self._extra = {}
        self._window = []
        self._restart_line()

    def _pace(self) -> Pace:
        now = time.perf_counter()
        taken = max(now - self._line_begun, 1e-9)
        waiting = min(1.0, (self._waited_s() - self._line_waited) / taken)
        return Pace(sum(update.samples for update in self._window) / taken, waiting, now - self._begun)

    def _restart_line(self) -> None:
        self._line_begun = time.perf_counter()
        self._line_waited = self._waited_s()

    def _keep(self, row: dict[str, Any]) -> None:
        if self._file is not None:
            self._file.append(row)
