"""Cycling: the cycles of a run while it trains: which one it is in, what a checkpoint keeps of them, and what is said of them.

The run asks where the present cycle ends, tells when it has, and asks for the next; what that is, `tuning.cycles` decides.
A choice is not saved when it is made: a run that is cut off goes on from the end of the cycle before, where the same range test
gives the same choice.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from instep.errors import DescriptionError
from instep.loop.monitor import Monitor
from instep.run.run import Run
from instep.run.training_state import require_no_cycles
from instep.schedules import Constant
from instep.schedules.drive import PositionDrive
from instep.text import number, rate
from instep.tuning.cycles import Cycle, CycleOptions, Cycles, chosen, gain
from instep.tuning.rehearsal import require_one_optimizer


class Cycling:
    """The cycles of one run. `stop` is where the present one ends; `ended` says why there is no further one, once that is so."""

    def __init__(self, run: Run, options: CycleOptions, monitor: Monitor) -> None:
        self.cycles: tuple[Cycle, ...] = ()
        self.ended: str | None = None
        self.is_wanted = False  # fit_cycles() has called for training, and not fit()
        self._run = run
        self._options = options
        self._stepper = run.steppers[0]
        self._monitor = monitor
        self._logbook = run.logbook
        self._barren: str | None = None  # why a range test suggested nothing more

    @property
    def stop(self) -> int:
        return self.cycles[-1].stop if self.cycles else 0

    def begin_next(self) -> None:
        """Begin the next cycle, or say why there is none. Takes a range test, between the updates of the run."""
        run, monitor, made = self._run, self._monitor, self._stepper.made
        found = chosen(run, self.cycles, self._options, monitor.name, monitor.mode, made, keep=run.keep_range_test)
        if isinstance(found, str):
            self.ended = self._barren = found
            self._run.notices.say(found)
            return
        self._follow(found)  # which refuses what does not fit the groups: then nothing was begun
        self.cycles += (found,)
        self._say(found, self._run.step)
        self._logbook.go_on_to(found.stop)
        self._run.notices.say(
            f"cycle {found.index + 1}: max_lr {rate(found.max_lr)} (confidence {found.confidence:.2f}): {found.reason}"
        )
        for note in self._stepper.drive.notes if found.index == 0 else ():
            self._run.notices.say(note)

    def finish(self, step: int, value: float, *, patience_over: bool) -> None:
        """The present cycle is over, at its end or because the run's patience is, with this monitored value."""
        current = self.cycles[-1]
        done = replace(current, stop=step, after=value, gain=gain(current.before, value, self._monitor.mode))
        self.cycles = (*self.cycles[:-1], done)
        self.ended = self._why_ended(patience_over)
        self._say(done, step)
        values = f"{self._monitor.name} {number(done.before)} → {number(value)}"
        self._run.notices.say(f"cycle {done.index + 1} gained {number(done.gain)}: {values}")

    def change(self, options: CycleOptions) -> None:
        """Go on with other options; only those that decide how many cycles there are may differ."""
        if self.cycles:
            self._require_same(self._options.deciding(), options)
        self._options = options
        self.ended = self._why_ended(self._monitor.exhausted)

    def result(self) -> Cycles:
        return Cycles(self.cycles, self.ended or "not ended yet.")

    def describe(self) -> dict[str, Any]:
        """How the run is trained, as `run.json` keeps it."""
        return {"max_cycles": self._options.max_cycles, "min_delta": self._options.min_delta, **self._options.deciding()}

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        cycles = [cycle.to_json() for cycle in self.cycles]
        return {"options": self._options.deciding(), "cycles": cycles, "barren": self._barren}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on where `state` was taken; the optimizer is there already."""
        self._require_same(state["options"], self._options)
        self.cycles = tuple(Cycle(**cycle) for cycle in state["cycles"])
        self._barren = state["barren"]
        self.ended = self._why_ended(self._monitor.exhausted)
        if self.cycles and self.cycles[-1].after is None:
            self._follow(self.cycles[-1])

    def require_cycles(self, state: Mapping[str, Any] | None, step: int) -> None:
        """Raises unless the checkpoint was written by fit_cycles()."""
        require_in_cycles(state, step)

    def _say(self, cycle: Cycle, step: int) -> None:
        self._logbook.cycle(cycle.row(), step, max(0, step - 1) // self._run.state.steps_per_epoch)

    def _follow(self, cycle: Cycle) -> None:
        """Drive the optimizer through this cycle: its schedule begins at the updates made before it."""
        schedule = self._options.schedule(cycle.max_lr)
        self._stepper.drive = PositionDrive(
            schedule, self._stepper.optimizer, cycle.stop - cycle.start, begin=cycle.made, groups_then=cycle.groups
        )

    def _why_ended(self, patience_over: bool) -> str | None:
        if patience_over:
            return f"there was no better {self._monitor.name} within patience={self._monitor.patience} evaluations."
        if not self.cycles or self.cycles[-1].after is None:
            return None
        return self._barren or self._options.why_ended(self.cycles)

    def _require_same(self, before: Mapping[str, Any], options: CycleOptions) -> None:
        now = options.deciding()
        changed = [f"{name}={before.get(name)!r} before, {now[name]!r} now" for name in now if before.get(name) != now[name]]
        if changed:
            raise DescriptionError(
                f"this run was begun with other options of fit_cycles(): {'; '.join(changed)}. Use the same, or begin a new run."
            )


def require_cycles(schedule: Any, monitor: Monitor | None, *, total_steps: int, begun_at: int | None) -> Monitor:
    """The monitor of a run that can be trained in cycles; `begun_at` is how far fit() has trained it already."""
    if schedule is not None and not isinstance(schedule, Constant):
        raise DescriptionError(
            "fit_cycles() makes the schedule of each cycle itself, and the Trainer has one; leave schedule= out there, and say "
            "what is special about the cycles here: fit_cycles(schedule=lambda lr: OneCycle(lr, pct_start=0.5))."
        )
    if monitor is None:
        raise DescriptionError(
            "fit_cycles() goes by the monitored value, so it needs evaluations; pass valid= and evaluate_every= to the Trainer."
        )
    if total_steps < 1:
        raise DescriptionError("a cycle is as long as the run is described, and that has no updates; use epochs=1 or more.")
    if begun_at is not None:
        require_in_cycles(None, begun_at)
    return monitor


def require_in_cycles(state: Mapping[str, Any] | None, step: int) -> None:
    """Raises unless the checkpoint was written by fit_cycles()."""
    if state is None:
        raise DescriptionError(
            f"this run was trained with fit() up to step {step}, and fit_cycles() begins with a new run; make another Trainer, "
            "with another folder, and give it these weights with init=."
        )


@contextmanager
def begin_cycles(run: Run, options: CycleOptions) -> Iterator[Cycling]:
    """Inside, fit() trains this run in cycles; one that was begun in cycles goes on with these options."""
    cycling = run.state.cycles
    if isinstance(cycling, Cycling):
        cycling.change(options)
        if run.state.is_finished and cycling.ended is None:
            _reopen(run)
    else:
        require_one_optimizer(run)
        begun_at = run.state.step or None
        monitor = require_cycles(run.schedule, run.monitor, total_steps=run.total_steps, begun_at=begun_at)
        cycling = run.state.cycles = Cycling(run, options, monitor)
    run.loader.lengthen(-(-run.total_steps * options.max_cycles // run.state.steps_per_epoch))
    cycling.is_wanted = True
    try:
        yield cycling
    finally:
        cycling.is_wanted = False


def require_fit(run: Run) -> None:
    """Raises where this run was begun with fit_cycles(); one that never came to a cycle is a plain one again."""
    cycling = run.state.cycles
    if isinstance(cycling, Cycling) and not cycling.is_wanted:
        require_no_cycles(cycling.state() if cycling.cycles else None)
        run.state.cycles = None


def _reopen(run: Run) -> None:
    """A finished run goes on: from where it stood, not from the best weights, which it was left with."""
    if run.options.restore_best and run.folder is None:
        raise DescriptionError(
            "restore_best=True put the best weights into the model, and those to go on from are kept nowhere; ask for all "
            "cycles at once, or give the Trainer a folder."
        )
    if run.options.restore_best:
        run.entry.forget()
    run.state.is_finished = False
