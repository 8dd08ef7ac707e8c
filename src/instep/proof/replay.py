"""replay: go back to any step of a recorded run, and look at its update.

The newest checkpoint at or before the step is taken, and the updates from there on are made again exactly as the run made them.
Nothing is written into the run, and its lock is left alone.
"""

import math
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from instep.data.loading.loader import Batch
from instep.data.preview.preview import look_at_batch
from instep.data.preview.summary import Preview
from instep.errors import DescriptionError, NonFiniteGradient, NonFiniteLoss
from instep.proof.replay_check import Check, check
from instep.proof.replay_operation import Operation
from instep.proof.replay_progress import StepCounter
from instep.proof.replay_start import Build, HasRun, Start, begin, build_run, read_whole
from instep.proof.replay_update import (
    Before,
    ReplayedUpdate,
    list_changes,
    look_again,
    name_nonfinite,
)
from instep.records import Update
from instep.run.run import Run
from instep.run.run_files import RecordedRun


@dataclass(frozen=True)
class Replay:
    """A run at one of its steps, with everything in hand. Print it, or show it in a notebook.

    `batch`, `loss`, `update` and the others are those of the last update in `updates`. The model has the weights after it; where
    it failed, those before. See `replay`, which makes one.
    """

    path: Path
    updates: tuple[ReplayedUpdate, ...]  # those that were asked for
    start: Start
    checked: Check  # against the history of the run
    trainer: Any = field(repr=False)
    preview: Preview = field(repr=False)  # of the batch
    notes: tuple[str, ...] = ()

    @property
    def last(self) -> ReplayedUpdate:
        return self.updates[-1]

    @property
    def step(self) -> int:
        return self.last.step

    @property
    def batch(self) -> Any:
        return self.last.batch

    @property
    def samples(self) -> Tensor:
        """The indices of the samples of the batch in the training data."""
        return self.last.samples

    @property
    def loss(self) -> float:
        return self.last.loss

    @property
    def update(self) -> Update | None:
        return self.last.update

    @property
    def operation(self) -> Operation | None:
        """The operation that made a value that is not finite, where `anomaly=True` found one."""
        return self.last.operation

    @property
    def model(self) -> Any:
        return self.trainer.run.model

    @property
    def optimizer(self) -> Any:
        return self.trainer.run.optimizer

    def text(self, *, width: int = 80, colour: bool = False) -> str:
        from instep.proof.replay_text import render

        return render(self, width=width, colour=colour)

    def __str__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        import html

        return f"<pre>{html.escape(self.text(width=100))}</pre>"


def replay(run: str | Path, build: Build | HasRun, *, step: int, to: int | None = None, anomaly: bool = False) -> Replay:
    """The run in a folder at one of its steps: the batch, the loss, the gradients and weights, what is not finite.

    `build` is a function that makes the Trainer of the run, as it was trained; where the run recorded hyper-parameters, those
    that it has parameters for are passed. `to` replays the updates from `step` up to that one. With `anomaly`, the operation is
    found that made a value that is not finite, with your line; where the weights were spoilt by an update before `step`, that
    one is shown. Nothing is written into the run, which may be training still.

        replay = instep.replay("runs/x", build, step=1234, anomaly=True)
        print(replay)
        replay.model, replay.batch, replay.samples, replay.operation

    >>> import tempfile, torch
    >>> from instep import Trainer
    >>> def build(folder=None):
    ...     _ = torch.manual_seed(0)
    ...     model, x = torch.nn.Linear(3, 1), torch.randn(40, 3)
    ...     optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    ...     return Trainer(
    ...         model,
    ...         loss=torch.nn.functional.mse_loss,
    ...         optimizer=optimizer,
    ...         train=(x, x[:, :1]),
    ...         epochs=2,
    ...         batch_size=8,
    ...         folder=folder,
    ...         progress=False,
    ...     )
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = build(folder).fit()
    ...     found = replay(folder, build, step=7)
    >>> found.step, len(found.samples)
    (7, 8)
    """
    _require_steps(step, to)
    recorded = read_whole(run)
    return _Replaying(build_run(build, recorded), recorded, anomaly=anomaly).go(step, step if to is None else to)


class _Replaying:
    """Makes the updates up to a step, and looks at the last ones."""

    def __init__(self, trainer: HasRun, recorded: RecordedRun, *, anomaly: bool) -> None:
        self._trainer = trainer
        self._run: Run = trainer.run
        self._recorded = recorded
        self._anomaly = anomaly
        self._first = 0  # the first update to look at
        self._looked: list[ReplayedUpdate] = []
        self._batch: Batch | None = None  # of the present update
        self._before: Before | None = None  # the present update, where it may be looked at
        self._notes: list[str] = []

    def go(self, first: int, last: int) -> Replay:
        run, self._first = self._run, first
        start = begin(run, self._recorded, first, before_update=self._begin_update)
        if last >= run.state.total_steps:
            raise DescriptionError(f"to={last} is behind the last step of {self._recorded.path}, {run.state.total_steps - 1:,}.")
        try:
            self._make_updates(start, last)
        except (NonFiniteLoss, NonFiniteGradient) as error:
            self._look_at_failed(error)
        if not self._looked or self._batch is None:
            why = f": {run.state.why_stopped}" if run.state.why_stopped else ""
            raise DescriptionError(f"{self._recorded.path} ended after {run.state.step:,} updates{why}, before step {first:,}.")
        self._say(start)
        return Replay(
            self._recorded.path,
            tuple(self._looked),
            start,
            check(self._recorded.history, run.logbook.history, start.step),
            self._trainer,
            look_at_batch(run.feed, run.loader, self._batch),
            tuple(self._notes),
        )

    def _make_updates(self, start: Start, last: int) -> None:
        with closing(self._trainer.updates()) as updates, StepCounter(start.step, last) as counter:
            for update in updates:
                counter.count(update.step)
                is_spoilt = self._anomaly and not _weights_are_finite(self._run)
                if self._batch is not None and self._before is not None and (update.step >= self._first or is_spoilt):
                    self._look(update, self._batch, self._before)
                if update.step == last or is_spoilt:
                    return

    def _begin_update(self, batch: Batch) -> None:
        self._batch = batch
        self._before = Before(self._run) if self._run.state.step >= self._first or self._anomaly else None

    def _look(self, update: Update, batch: Batch, before: Before) -> None:
        """At an update that was made, or skipped."""
        run, loss, operation = self._run, float(update.loss), None
        changes = list_changes(run, before)
        if update.skipped or not math.isfinite(loss) or any(one.bad_weights or one.bad_gradients for one in changes):
            after = Before(run)
            before.put_back()
            due = [stepper for stepper in run.steppers if stepper.is_due(update.step)]
            _, operation = look_again(run, batch, update.step, due, anomaly=self._anomaly)
            after.put_back()
            changes = list_changes(run, before)
        bad = name_nonfinite(run, batch, changes)
        self._keep(update.step, batch, loss, update, changes=changes, nonfinite=tuple(bad), operation=operation)

    def _look_at_failed(self, error: NonFiniteLoss | NonFiniteGradient) -> None:
        """At an update that raised, mostly before its step; an accelerator's flags are read after it."""
        run, batch, before, step = self._run, self._batch, self._before, error.step
        if batch is None or before is None or step is None or step < run.state.step - 1:
            error.args = (f"{error} This is before step {self._first:,}; replay it to step {step} to look at it.",)
            raise error
        due = [stepper for stepper in run.steppers if stepper.is_due(step)]
        if run.state.step > step:
            before.put_back()
        else:
            due = [stepper for stepper in due if stepper.batch is batch][-1:]  # whose turn it was
        loss, operation = look_again(run, batch, step, due, anomaly=self._anomaly)
        changes = list_changes(run, before)
        bad = name_nonfinite(run, batch, changes)
        self._keep(step, batch, loss, None, changes=changes, nonfinite=tuple(bad), operation=operation, error=str(error))

    def _keep(self, step: int, batch: Batch, loss: float, update: Update | None, *, changes: Any, **found: Any) -> None:
        samples = self._run.loader.origin(batch.indices)
        self._looked.append(
            ReplayedUpdate(step, batch.epoch, batch.index, loss, update, batch.data, samples, tuple(changes), **found)
        )

    def _say(self, start: Start) -> None:
        looked, known, first = self._looked[-1], max(self._recorded.step or 0, start.step), self._first
        if looked.step < first:
            what = "failed" if looked.error else "spoilt the weights"
            self._notes.append(f"the update of step {looked.step:,} {what}, before step {first:,}: this one is shown.")
        if looked.step > known:
            self._notes.append(f"the files of the run go to step {known:,}: what comes behind that is what it would do.")


def _weights_are_finite(run: Run) -> bool:
    return all(bool(torch.isfinite(p).all()) for p in run.model.parameters())


def _require_steps(step: int, to: int | None) -> None:
    for name, value in (("step", step), ("to", 0 if to is None else to)):
        if type(value) is not int or value < 0:
            raise DescriptionError(f"{name}={value!r} is not a step; steps are whole numbers, the first update is 0.")
    if to is not None and to < step:
        raise DescriptionError(f"to={to} is before step={step}; it is the last step to replay.")
