"""Trainer: the description of a run, and what can be done with it. Read this first.

`fit()` drives `updates()`, which takes each batch through `UpdateCycle.run`, where `backward()` is called: three calls in two
files. `run.assemble` puts the run together, `run.session` resumes, counts, evaluates and saves around each update.
"""

import contextlib
from collections.abc import Callable, Collection, Generator, Mapping
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn

from instep.data.loading.loader import WorkerCount
from instep.distributed.shard import Shard
from instep.doctor.watching import watching
from instep.errors import DescriptionError, Interrupted
from instep.loop.accumulation import OnNonFinite
from instep.loop.objective import LossFunction
from instep.loop.out_of_memory import OnOutOfMemory
from instep.loop.precision import PrecisionName
from instep.loop.steppers import Objectives, Optimizers
from instep.loop.unfreezing import UnfreezeAt
from instep.optim.average import Average
from instep.optim.clip import Limit
from instep.optim.which_weights import Weights
from instep.records import Evaluation, Plan, Update
from instep.report.plan import render
from instep.report.progress import progress as show_progress
from instep.run.assemble import assemble
from instep.run.history import History
from instep.run.options import Options, refuse_unknown
from instep.schedules import OneCycle
from instep.tuning.batch_size import BatchSizeSearch, find_batch_size
from instep.tuning.cycles import CycleOptions, Cycles
from instep.tuning.cycling import begin_cycles, require_fit
from instep.tuning.range_test import RangeTest, find_lr
from instep.tuning.rehearsal import require_one_optimizer
from instep.tuning.snapshot import untouched
from instep.tuning.sweep import Mode, peak_momentum


class Trainer:
    """A training run: what is trained, on what, how, and for how long.

    >>> x, y = torch.randn(64, 4), torch.randint(3, (64,))
    >>> model = nn.Linear(4, 3)
    >>> trainer = Trainer(
    ...     model,
    ...     loss=nn.functional.cross_entropy,
    ...     optimizer=torch.optim.AdamW(model.parameters()),
    ...     train=(x, y),
    ...     epochs=2,
    ...     batch_size=16,
    ...     progress=False,
    ... )
    >>> trainer.fit().last["step"]
    8
    """

    def __init__(
        self,
        model: nn.Module | Mapping[str, nn.Module],
        *,
        optimizer: Optimizers,
        train: Any,
        loss: LossFunction | None = None,
        objective: Objectives = None,
        valid: Any = None,
        test: Any = None,
        epochs: int | None = None,
        max_steps: int | None = None,
        batch_size: int | None = None,
        update_cycle: int = 1,
        micro_batch_size: int | None = None,
        drop_last: bool = False,
        num_workers: WorkerCount | None = None,
        schedule: Any = None,
        update_every: Mapping[str, int] | None = None,
        clip_norm: Limit | Mapping[str, Limit] = None,
        clip_value: Limit | Mapping[str, Limit] = None,
        l1: float | Mapping[str, float] = 0.0,
        l2: float | Mapping[str, float] = 0.0,
        ema: float | None = None,
        unfreeze_at: UnfreezeAt | None = None,
        metrics: Any = None,
        evaluate_every: int | str | None = "epoch",
        monitor: str | None = None,
        monitor_mode: Literal["auto", "min", "max"] = "auto",
        patience: int | None = None,
        restore_best: bool = False,
        seed: int = 0,
        folder: str | Path | None = None,
        checkpoint_every: int | str | None = "epoch",
        keep: int | None = 3,
        keep_best: int = 1,
        allow_changes: Collection[str] = (),
        init: str | Path | None = None,
        device: str | torch.device = "auto",
        precision: PrecisionName = "fp32",
        compile: bool = False,
        deterministic: bool = False,
        shard: Shard = False,
        sync_batchnorm: bool = False,
        timeout_s: float | None = None,
        on_nonfinite: OnNonFinite = "stop",
        on_out_of_memory: OnOutOfMemory = "raise",
        log_every: int = 50,
        progress: bool | None = None,
        doctor: bool = False,
        **unknown: Any,
    ) -> None:
        refuse_unknown(unknown)
        self.run = assemble(Options(
            model=model, optimizer=optimizer, train=train, loss=loss, objective=objective, valid=valid, test=test, epochs=epochs,
            max_steps=max_steps, batch_size=batch_size, update_cycle=update_cycle, micro_batch_size=micro_batch_size,
            drop_last=drop_last, num_workers=num_workers, schedule=schedule, update_every=update_every, clip_norm=clip_norm,
            clip_value=clip_value, l1=l1, l2=l2, ema=ema, unfreeze_at=unfreeze_at, metrics=metrics,
            evaluate_every=evaluate_every, monitor=monitor, monitor_mode=monitor_mode, patience=patience,
            restore_best=restore_best, seed=seed, folder=folder, checkpoint_every=checkpoint_every, keep=keep,
            keep_best=keep_best, allow_changes=allow_changes, init=init, device=device, precision=precision, compile=compile,
            deterministic=deterministic, shard=shard, sync_batchnorm=sync_batchnorm, timeout_s=timeout_s,
            on_nonfinite=on_nonfinite, on_out_of_memory=on_out_of_memory, log_every=log_every, progress=progress,
            doctor=doctor,
        ), show_progress)  # fmt: skip

    # --- The loop

    def fit(self) -> History:
        """Train to the end; a finished run is returned as it is. Ctrl-C and SIGTERM end it after a whole update."""
        require_fit(self.run)
        with self.run.processes.interrupt() as interrupt, contextlib.closing(self.updates()) as updates:
            self.run.state.interrupt = interrupt
            try:
                for _ in updates:
                    if interrupt.signal is not None:
                        break
            finally:
                self.run.state.interrupt = None
        if interrupt.signal is not None:
            raise Interrupted(interrupt.signal, self.step, self.folder)
        return self.history

    def updates(self) -> Generator[Update]:
        """Train as a loop of yours: yields after each update. `break`, and the next call goes on from there."""
        if self.run.state.is_finished:
            self.run.say_finished()
            return
        with watching(self.run.options.doctor), self.run.session() as session:
            for batch in session.batches():
                results = {}
                for stepper in session.due():
                    with stepper.turn(batch, self.run.state.step):
                        results[stepper.name] = stepper.run(stepper.pieces(batch), stepper.objective)
                yield session.finish_update(batch, results)

    def fit_cycles(
        self,
        *,
        max_cycles: int = 8,
        min_delta: float = 0.0,
        schedule: Callable[[float], OneCycle] = OneCycle,
        low: float = 1e-7,
        high: float = 10.0,
        steps: int = 100,
        repeats: int = 2,
    ) -> Cycles:
        """Train in cycles: a range test, one cycle at what it found, and again from there, until one gains too little.

        Each cycle is as long as the run is described. There is no further one where the last did not improve the monitored value
        by more than `min_delta`, after `max_cycles`, or where the range test suggests nothing. `schedule` makes a cycle of the
        learning rate that was found; `low`, `high`, `steps` and `repeats` are those of `find_lr`. Choices and gains are in
        `history.cycles`. Like fit() it goes on where a run in the folder was stopped, and more cycles may be asked for then.

            cycles = trainer.fit_cycles(max_cycles=4)
            print(cycles)
        """
        options = CycleOptions(max_cycles, min_delta, schedule, low, high, steps, repeats)
        with begin_cycles(self.run, options) as cycling:
            self.fit()
        return cycling.result()

    # --- Looking

    def evaluate(self, data: Any = None, *, weights: Weights | None = None) -> Evaluation:
        """The loss and the metrics on the validation data, or on `data`: `{"valid/loss": …}`, or `{"data/loss": …}`.

        `evaluate("test")` takes the test data of the Trainer; `evaluate({"a": …, "b": …})` names its numbers `a/loss`, `b/loss`.
        Of a run with `ema=` it has the numbers of the model as it is and those of the averaged weights, `valid/ema/loss`;
        `weights="model"` or `"ema"` gives one kind.
        """
        return self.run.evaluate(data, weights)

    def predict(self, data: Any, *, weights: Weights | None = None) -> Any:
        """The model's outputs in the data's order, on the CPU: for a tensor, the inputs of (x, y), or a mapping.

        Of a run with `ema=` the weights are those that the monitored value judges: the averaged ones with
        `monitor="valid/ema/…"`, else the model's own. `weights="model"` or `"ema"` says it. Of several processes rank 0 gets
        the outputs, the others None.
        """
        return self.run.predict(data, weights)

    def log(self, **values: float) -> None:
        """Put numbers of your own into the next line of the log; those after the last update get a row of their own."""
        self.run.logbook.log(values)

    def load(self, which: Literal["best", "latest"] | int, *, weights: Weights | None = None) -> None:
        """Give the model the weights of the best evaluation, of the latest checkpoint, or of the checkpoint of a step.

        Of a run with `ema=` the model gets those that the monitored value judges, as in `predict`, and `trainer.ema` the
        averaged ones of that step; `restore_best=True` does the same at the end.
        """
        self.run.load(which, weights)

    def plan(self) -> Plan:
        """The run before its first step, as data."""
        return self.run.plan_text()

    def __repr__(self) -> str:
        return render(self.plan())

    # --- Trying out

    def find_lr(
        self,
        *,
        low: float = 1e-7,
        high: float = 10.0,
        steps: int = 100,
        mode: Mode = "exponential",
        smoothing: float = 0.6,
        stop_factor: float = 3.0,
        repeats: int = 2,
        momentum: float | None = None,
    ) -> RangeTest:
        """A range test from where the run stands: which learning rate to train with, and why. It leaves no trace.

        The learning rate grows from `low` to `high` in so many `steps`, in equal factors or (`mode="linear"`) in equal amounts,
        until the loss is `stop_factor` times what it was; that is done `repeats` times, each on other batches. `smoothing` is the
        weight of a neighbour in the curve. `momentum` is that of the test; without it, that at the peak where the run's schedule
        is a OneCycle, and else the optimizer's own.

        >>> x = torch.randn(256, 4, generator=torch.Generator().manual_seed(0))
        >>> model = nn.Linear(4, 1)
        >>> trainer = Trainer(
        ...     model,
        ...     loss=nn.functional.mse_loss,
        ...     optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        ...     train=(x, x.sum(1, keepdim=True)),
        ...     epochs=1,
        ...     progress=False,
        ... )
        >>> test = trainer.find_lr()  # print(test) draws it
        >>> 0.03 < test.suggestion < 1.0
        True
        """
        if momentum is None:
            momentum = peak_momentum(self.run.schedule)
        return find_lr(
            self.run,
            low=low,
            high=high,
            steps=steps,
            mode=mode,
            smoothing=smoothing,
            stop_factor=stop_factor,
            repeats=repeats,
            momentum=momentum,
        )

    def find_batch_size(
        self,
        *,
        memory_bytes: float | None = None,
        margin: float = 0.1,
        most: int | None = None,
        how: Literal["auto", "trying", "measuring"] = "auto",
        paces: bool = True,
    ) -> BatchSizeSearch:
        """The largest micro-batch that fits in memory, and how fast each size is. It leaves no trace and changes no batch.

        On an accelerator sizes are tried; on a CPU small ones are measured, for a process that may hold `memory_bytes` (without
        it, what the machine has free). `margin` is the share that stays free, `most` the largest size looked at; `paces=False`
        leaves the timing out.

        >>> x = torch.randn(256, 4)
        >>> model = nn.Linear(4, 1)
        >>> trainer = Trainer(
        ...     model,
        ...     loss=nn.functional.mse_loss,
        ...     optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        ...     train=(x, x.sum(1, keepdim=True)),
        ...     epochs=1,
        ...     batch_size=64,
        ...     progress=False,
        ... )
        >>> trainer.find_batch_size(paces=False).advice
        'batch_size=64 fits at once: update_cycle=1.'
        """
        if self.run.processes.are_several:
            raise DescriptionError(
                "find_batch_size() measures one process; call it in a script that is started without torchrun."
            )
        return find_batch_size(self.run, memory_bytes=memory_bytes, margin=margin, most=most, how=how, paces=paces)

    def dry_run(self) -> Evaluation | None:
        """Two updates and an evaluation that leave no trace and write nothing."""
        with untouched(self.run.model, self.run.steppers[0].optimizer, *self.run.stateful):
            return self.run.dry_run()

    def set_lr(self, lr: float) -> None:
        """The learning rate, for a run that has not begun: the peak of its OneCycle, or what its groups start from.

        Groups keep their ratios, and the largest gets `lr` itself; `find_lr().suggestion` is such a number.
        """
        require_one_optimizer(self.run)
        self.run.set_lr(lr)

    # --- What it is made of, and how far it is

    @property
    def model(self) -> Any:
        """The model; several are an nn.ModuleDict."""
        return self.run.model

    @property
    def optimizer(self) -> Any:
        """The optimizer; several are a dictionary."""
        return self.run.optimizer

    @property
    def ema(self) -> Average | None:
        """The average of the weights, where `ema=` asked for one; `ema.module` is a model that has them."""
        return self.run.ema

    @property
    def history(self) -> History:
        """What the run has logged so far."""
        return self.run.logbook.history

    @property
    def step(self) -> int:
        """Update cycles begun so far."""
        return self.run.state.step

    @property
    def resumed_from(self) -> int | None:
        """The step of the checkpoint that this run was resumed from."""
        return self.run.state.resumed_from

    @property
    def folder(self) -> Path | None:
        return self.run.folder

    @property
    def device(self) -> torch.device:
        return self.run.device

    @property
    def rank(self) -> int:
        """This process among those of the run, from 0."""
        return self.run.world.rank

    @property
    def processes(self) -> int:
        """How many processes train."""
        return self.run.world.size

    @property
    def seed(self) -> int:
        return self.run.options.seed

    @property
    def batch_size(self) -> int:
        """The samples of an update, over all processes."""
        return self.run.batch_size

    @property
    def samples(self) -> int:
        """The samples of an epoch."""
        return self.run.samples

    @property
    def steps_per_epoch(self) -> int:
        return self.run.state.steps_per_epoch

    @property
    def total_steps(self) -> int:
        return self.run.state.total_steps
