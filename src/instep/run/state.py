"""RunState: where a run stands: how far it came, where it ends, whether it goes on."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from instep.distributed.interrupt import AFTER_EVALUATION, AFTER_UNSAVED, AFTER_UPDATE, Interrupt
from instep.errors import Interrupted, die_if_uncaught
from instep.loop.monitor import Monitor
from instep.text import plural


class CycleControl(Protocol):
    """The cycles of a run that is trained in cycles: where the present one ends, and which comes next."""

    ended: str | None  # why there is no further one, once that is so

    @property
    def stop(self) -> int: ...
    def begin_next(self) -> None: ...
    def finish(self, step: int, value: float, *, patience_over: bool) -> None: ...
    def describe(self) -> dict[str, Any]: ...
    def state(self) -> dict[str, Any]: ...
    def restore(self, state: Mapping[str, Any]) -> None: ...
    def require_cycles(self, state: Mapping[str, Any] | None, step: int) -> None: ...


class RunState:
    """The counters and flags of one run. Patience is the monitor's, the end of a cycle that of its cycles: both are asked."""

    def __init__(self, *, total_steps: int, steps_per_epoch: int, evaluate_every: int | None, monitor: Monitor | None) -> None:
        self.step = 0  # update cycles begun
        self.total_steps = total_steps
        self.steps_per_epoch = steps_per_epoch
        self.cycles: CycleControl | None = None
        self.is_running = False
        self.is_finished = False
        self.is_torn = False  # stopped in the middle of an update, so that the model is neither before nor after it
        self.resumed_from: int | None = None  # the step of the checkpoint that this run was resumed from
        self.best_step: int | None = None
        self.weights_step: int | None = None  # of weights that were loaded; None where the model has those of `step`
        self.best_weights: dict[str, Any] | None = None  # where there is no folder to keep them in
        self.interrupt: Interrupt | None = None
        self.folder: Path | None = None  # where a run that is interrupted goes on from
        self._evaluate_every = evaluate_every
        self._monitor = monitor

    @property
    def stop(self) -> int:
        """The step at which the run ends, or the cycle that it is in."""
        return self.total_steps if self.cycles is None else self.cycles.stop

    @property
    def epoch(self) -> int:
        """The epoch of the last update."""
        return self.epoch_of(self.step)

    def epoch_of(self, step: int) -> int:
        """The epoch of the last of so many updates."""
        return max(0, step - 1) // self.steps_per_epoch

    @property
    def patience_is_over(self) -> bool:
        return self._monitor is not None and self._monitor.exhausted

    @property
    def why_stopped(self) -> str:
        """Why patience ended the run; "" where it did not."""
        if self._monitor is None or not self.patience_is_over:
            return ""
        return f"{self._monitor.name} has not improved for {plural(self._monitor.waited, 'evaluation')}"

    def is_over(self) -> bool:
        """Whether there is no further update."""
        if self.patience_is_over:
            return True
        return self.step >= self.stop and (self.cycles is None or self.cycles.ended is not None)

    def goes_on(self) -> bool:
        """Whether there is another update; between two cycles a range test says."""
        if self.cycles is not None and self.step >= self.stop and not self.is_over():
            self.cycles.begin_next()
        return not self.is_over()

    def is_evaluation_due(self) -> bool:
        every = self._evaluate_every
        return every is not None and (self.step % every == 0 or self.step == self.stop)

    def end_cycle(self, value: float) -> None:
        """Tell the cycles that the present one is over, where it is, with this monitored value."""
        if self.cycles is not None and (self.step == self.stop or self.patience_is_over):
            self.cycles.finish(self.step, value, patience_over=self.patience_is_over)

    @contextmanager
    def evaluating(self, *, is_saved: bool) -> Iterator[None]:
        """Around an evaluation, after which a signal stops the run; `is_saved` where a checkpoint has the updates before it."""
        if self.interrupt is None:
            yield
            return
        self.interrupt.answer = AFTER_EVALUATION if is_saved or self.folder is None else AFTER_UNSAVED
        try:
            yield
        finally:
            self.interrupt.answer = AFTER_UPDATE

    def check_interrupt(self) -> None:
        """Raises where a signal has asked the run to stop; for long work between two updates."""
        if self.interrupt is not None and self.interrupt.signal is not None:
            raise die_if_uncaught(Interrupted(self.interrupt.signal, self.step, self.folder))
