"""The logbook: what a run says while it goes: lines of the log, evaluations, progress, and the history that keeps them.

Losses are added up unread; the device is asked once a line.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from instep.errors import DescriptionError
from instep.loop.batch_plan import require_whole
from instep.records import Evaluation, Logged, Pace, Plan, Update
from instep.run.history import History, HistoryFile, free_names
from instep.run.loggers import RunLoggers
from instep.run.tally import Tallies
from instep.run.window import Mean, Window, mean_states, mean_values, restored_means


class Progress(Protocol):
    """How a run is shown while it trains."""

    says_end: bool  # whether it sums up a run that came to its end

    def start(self, step: int = 0, epoch: int = 0, *, before_s: float = 0.0, best: Evaluation | None = None) -> None: ...
    def advance(self, step: int, epoch: int) -> None: ...
    def logged(self, line: Logged) -> None: ...
    def evaluated(self, evaluation: Evaluation, *, best: bool) -> None: ...
    def epoch_ended(self) -> None: ...
    def tested(self, evaluation: Evaluation) -> None: ...
    def go_on_to(self, stop: int) -> None: ...
    def note(self, text: str) -> None: ...
    def remark(self, text: str) -> None: ...
    def close(self, state: str, why: str = "") -> None: ...


class Notices:
    """What is said once while a run goes, from wherever; shown where its progress is."""

    def __init__(self) -> None:
        self.show: Callable[[str], None] | None = None

    def say(self, text: str) -> None:
        if self.show is not None:
            self.show(text)


class Logbook:
    """Opened when a run begins or goes on, closed when it ends or pauses."""

    def __init__(
        self,
        history: History,
        *,
        log_every: int,
        waited_s: Callable[[], float],
        show: Callable[[Plan], Progress],
        notices: Notices,
        loggers: RunLoggers,
        momentum: Callable[[], float | None] = lambda: None,
        memory_bytes: Callable[[], int | None] = lambda: None,
    ) -> None:
        require_whole("log_every", log_every, least=1)
        self.history = history
        self.show = show
        self._log_every = log_every
        self._notices = notices
        self._loggers = loggers
        self._waited_s = waited_s  # how long the run has waited for data so far
        self._momentum = momentum  # of the last update, where a schedule moves it
        self._memory_bytes = memory_bytes
        self._progress: Progress | None = None
        self._file: HistoryFile | None = None
        self._window = Window()
        self._since_evaluation = Mean()
        self._parts_since_evaluation: dict[str, Mean] = {}  # of the loss
        self._tallies = Tallies()
        self._extra: dict[str, float] = {}
        self._unwritten: list[dict[str, Any]] = []  # rows that a full disk did not take
        self._is_skipping_said = False
        self.paused_after_s = 0.0  # the seconds that the run had trained when it last paused: rows know of no range test
        self._begun = self._line_begun = time.perf_counter()
        self._line_waited = 0.0

    def keep_in(self, path: Path) -> None:
        """Write the history to this file from now on."""
        self._file = HistoryFile(path)

    def open(self, plan: Plan, step: int) -> None:
        """Begin to show."""
        self._progress = self.show(plan)
        before_s = self.continue_clock()
        self._progress.start(step, before_s=before_s, best=self._best())
        self._notices.show = self._progress.note
        for note in plan.notes:
            self._notices.say(note)
        self.continue_clock()
        self._restart_line()

    def continue_clock(self) -> float:
        """Go on counting from the seconds that the run has trained so far, which are returned."""
        before_s = max(self._clock(), self.paused_after_s)
        self._begun = time.perf_counter() - before_s
        return before_s

    def _clock(self) -> float:
        """The seconds that the run had trained when it wrote its last row, in processes before this one too."""
        clocks = (row.get("clock", {}) for row in reversed(self.history.rows))  # what was logged at the end of a run has none
        return next((float(clock["seconds"]) for clock in clocks if "seconds" in clock), 0.0)

    def _best(self) -> Evaluation | None:
        """The best evaluation so far, by the number that it goes by."""
        row, monitor = self.history.best, self.history.monitor
        return None if row is None else Evaluation.of({monitor: row[monitor]}, row["step"], row["epoch"])

    def remark(self, plan: Plan, text: str) -> None:
        """Say something about a run that is not shown otherwise."""
        self.show(plan).remark(text)

    def close(self, state: str, why: str = "") -> None:
        """What a failed run leaves unsaid is said; what goes on later stays open. `why` is for the last line."""
        if state == "failed" and self._window.unread:
            self._write_line(self._window.unread[-1])
        elif state in ("finished", "stopped") and self._extra:
            self._keep(self.history.add_log(self._extra))
            self._extra = {}
        kept_in = "trainer.history" if self._file is None else str(self._file.path)
        self._loggers.finish(state, self.history.rows, f"every row is in {kept_in}")
        if self._progress is not None:
            self.paused_after_s = time.perf_counter() - self._begun
            self._notices.show = None
            self._progress.close(state, why)
            self._progress = None

    def updated(self, update: Update, *, line_due: bool, left: int) -> bool:
        """Take in an update; a line is written every `log_every` updates, and where one is due. Says whether it was.

        Where fewer updates than half of that are `left` in the epoch, they are taken into its last line: a mean over one or two
        of them would stand beside means over many.
        """
        self._window.unread.append(update)
        if update.by_objective:
            self._tallies.take_in(update.by_objective)
        if self._progress is not None:
            self._progress.advance(update.step + 1, update.epoch)
        if not line_due and (len(self._window) < self._log_every or 2 * left < self._log_every):
            return False
        self._write_line(update)
        return True

    def evaluated(self, evaluation: Evaluation, *, best: bool) -> None:
        """Take in an evaluation; it is kept together with the training loss since the one before it."""
        train = mean_values({"loss": self._since_evaluation, **self._parts_since_evaluation}, "train/")
        self._since_evaluation, self._parts_since_evaluation = Mean(), {}
        train = self._tallies.losses() if self._tallies else train
        evaluation = replace(evaluation, values_by_name={**train, **evaluation})
        self._keep(self.history.add_evaluation(evaluation, seconds=time.perf_counter() - self._begun))
        if self._progress is not None:
            self._progress.evaluated(evaluation, best=best)
        self._restart_line()  # the time of an evaluation is not the next line's

    def epoch_ended(self) -> None:
        """An epoch is over, and no evaluation says so."""
        if self._progress is not None:
            self._progress.epoch_ended()

    def tested(self, evaluation: Evaluation) -> None:
        """Take in the evaluation of the test data, at the end of the run."""
        self._keep(self.history.add_test(evaluation, seconds=time.perf_counter() - self._begun))
        if self._progress is not None:
            self._progress.tested(evaluation)

    def cycle(self, cycle: Mapping[str, Any], step: int, epoch: int) -> None:
        """Take in what was chosen for a cycle, or what it brought."""
        self._keep(self.history.add_cycle(cycle, step, epoch))

    def go_on_to(self, stop: int) -> None:
        """The run goes on to this step, where it shall end or a cycle does."""
        if self._progress is not None:
            self._progress.go_on_to(stop)
        self._restart_line()  # the time of a range test is not the next line's

    def log(self, values: Mapping[str, float]) -> None:
        """Numbers of the user's own, for the next line."""
        self._extra |= {name: _number(name, value) for name, value in free_names(values).items()}

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps: the open sums, and how many rows the history had. Nothing here depends on the clock."""
        self._window.read(self._since_evaluation, parts=self._parts_since_evaluation)
        return {
            "window": self._window.state(),
            "since_evaluation": self._since_evaluation.state(),
            **({"parts_since_evaluation": mean_states(self._parts_since_evaluation)} if self._parts_since_evaluation else {}),
            "players": self._tallies.state(),
            "extra": dict(self._extra),
            "history_rows": len(self.history) - len(self._unwritten),
        }

    def sync(self) -> None:
        """See to it that the rows outlive a power cut. Waits for the disk; any thread may call it."""
        if self._file is not None:
            self._file.sync()

    def restore(self, state: Mapping[str, Any] | None) -> None:
        """Go on after the lines that the checkpoint knows of (None: after none); what was written since then is cut off.

        Without a file, as in a replay, only the open sums are put back.
        """
        self._unwritten.clear()  # they are made again
        if self._file is not None:
            found = self._file.go_on_after(0 if state is None else state["history_rows"])
            self.history = History(found, monitor=self.history.monitor, mode=self.history.mode)
        if state is not None:
            self._window.restore(state["window"])
            self._since_evaluation = Mean(*state["since_evaluation"])
            self._parts_since_evaluation = restored_means(state.get("parts_since_evaluation", {}))
            self._tallies.restore(state["players"])
            self._extra = dict(state["extra"])

    def _write_line(self, update: Update) -> None:
        self._window.read(self._since_evaluation, parts=self._parts_since_evaluation)
        window = self._window
        if window.skipped == window.updates and not self._is_skipping_said:
            self._is_skipping_said = True
            self._notices.say(
                f"{_updates_up_to(window.updates, update.step + 1)} made no step: nothing in their targets counts, as where all "
                "of them are ignored, or their gradients are not finite"
            )
        line = Logged(
            step=update.step + 1,
            epoch=update.epoch,
            loss=window.loss.value(),
            lr=update.lr,
            grad_norm=window.grad_norm.value(),
            clipped=int(window.clipped.weighted) if window.clipped.count else None,
            penalty=window.penalty.value(),
            skipped=window.skipped,
            extra={**self._tallies.line(), **self._extra},
            pace=self._pace(),
            parts={} if self._tallies else mean_values(window.parts),
            momentum=self._momentum(),
        )
        self._keep(self.history.add_update(line))
        if self._progress is not None:
            self._progress.logged(line)
        self._extra = {}
        window.restart()
        self._restart_line()

    def _pace(self) -> Pace:
        now = time.perf_counter()
        seconds = max(now - self._line_begun, 1e-9)
        waiting = min(1.0, (self._waited_s() - self._line_waited) / seconds)
        return Pace(self._window.samples / seconds, waiting, now - self._begun, self._memory_bytes())

    def _restart_line(self) -> None:
        self._line_begun = time.perf_counter()
        self._line_waited = self._waited_s()

    def _keep(self, row: dict[str, Any]) -> None:
        if self._file is not None:
            self._unwritten.append(row)
            self._write_rows()
        self._loggers.feed(self.history.rows)

    def _write_rows(self) -> None:
        while self._file is not None and self._unwritten:
            self._file.append(self._unwritten[0])
            self._unwritten.pop(0)


def _updates_up_to(count: int, step: int) -> str:
    return f"the update before step {step}" if count == 1 else f"all {count} updates before step {step}"


def _number(name: str, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, RuntimeError):
        raise DescriptionError(f"log({name}=…) takes one number, not a {type(value).__name__}.") from None
