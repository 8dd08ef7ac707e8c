"""Cycling: the cycles of a run while it trains: which one it is in, what a checkpoint keeps of them, and what is said of them.

The Trainer asks where the present cycle ends, tells when it has, and asks for the next; what that is, `tuning.cycles` decides.
A choice is not saved when it is made: a run that is cut off goes on from the end of the cycle before, where the same range test
gives the same choice.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from instep.errors import DescriptionError
from instep.loop.monitor import Monitor
from instep.loop.stepper import Player
from instep.run.logbook import Logbook
from instep.schedules import Constant
from instep.schedules.drive import PositionDrive
from instep.text import number, rate
from instep.tuning.cycles import Cycle, CycledRun, CycleOptions, Cycles, chosen, gain


class Cycling:
    """The cycles of one run. `stop` is where the present one ends; `ended` says why there is no further one, once that is so."""

    def __init__(
        self, run: CycledRun, options: CycleOptions, *, player: Player, monitor: Monitor, logbook: Logbook, steps_per_epoch: int
    ) -> None:
        self.cycles: tuple[Cycle, ...] = ()
        self.ended: str | None = None
        self.asked_for = False
        self._run = run
        self._options = options
        self._player = player
        self._monitor = monitor
        self._logbook = logbook
        self._steps_per_epoch = steps_per_epoch
        self._barren: str | None = None  # why a range test suggested nothing more

    @property
    def stop(self) -> int:
        return self.cycles[-1].stop if self.cycles else 0

    def begin_next(self) -> None:
        """Begin the next cycle, or say why there is none. Takes a range test, between the updates of the run."""
        found = chosen(self._run, self.cycles, self._options, self._monitor.name, self._monitor.mode, made=self._player.made)
        if isinstance(found, str):
            self.ended = self._barren = found
            self._logbook.note(found)
            return
        self._follow(found)  # which refuses what does not fit the groups: then nothing was begun
        self.cycles += (found,)
        self._say(found, self._run.step)
        self._logbook.go_on_to(found.stop)
        self._logbook.note(
            f"cycle {found.index + 1}: max_lr {rate(found.max_lr)} (confidence {found.confidence:.2f}): {found.reason}"
        )
        for note in self._player.drive.notes if found.index == 0 else ():
            self._logbook.note(note)

    def finish(self, step: int, value: float, *, patience_over: bool) -> None:
        """The present cycle is over, at its end or because the run's patience is, with this monitored value."""
        current = self.cycles[-1]
        done = replace(current, stop=step, after=value, gain=gain(current.before, value, self._monitor.mode))
        self.cycles = (*self.cycles[:-1], done)
        self.ended = self._why_ended(patience_over)
        self._say(done, step)
        values = f"{self._monitor.name} {number(done.before)} → {number(value)}"
        self._logbook.note(f"cycle {done.index + 1} gained {number(done.gain)}: {values}")

    def change(self, options: CycleOptions) -> None:
        """Go on with other options; only those that decide how many cycles there are may differ."""
        if self.cycles:
            self._require_same(self._options.deciding(), options)
        self._options = options
        self.ended = self._why_ended(self._monitor.exhausted)

    @contextmanager
    def asked(self) -> Iterator[None]:
        """While fit_cycles() has called for training, and not fit()."""
        self.asked_for = True
        try:
            yield
        finally:
            self.asked_for = False

    def result(self) -> Cycles:
        return Cycles(self.cycles, self.ended or "not ended yet.")

    def described(self) -> dict[str, Any]:
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

    def _say(self, cycle: Cycle, step: int) -> None:
        self._logbook.cycle(cycle.row(), step, max(0, step - 1) // self._steps_per_epoch)

    def _follow(self, cycle: Cycle) -> None:
        """Drive the optimizer through this cycle: its schedule begins at the updates made before it."""
        schedule = self._options.schedule(cycle.max_lr)
        self._player.drive = PositionDrive(
            schedule, self._player.optimizer, cycle.stop - cycle.start, begin=cycle.made, groups_then=cycle.groups
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
    """That what is to be gone on with in cycles was trained in cycles."""
    if state is None:
        raise DescriptionError(
            f"this run was trained with fit() up to step {step}, and fit_cycles() begins with a new run; make another Trainer, "
            "with another folder, and give it these weights with init=."
        )


def require_no_cycles(state: Mapping[str, Any] | None) -> None:
    """That what is to be gone on with by fit() was not trained in cycles."""
    if state is not None:
        raise DescriptionError("this run is trained in cycles; go on with fit_cycles(), or make a new Trainer for fit().")
