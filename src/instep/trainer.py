"""Trainer: the description of a run, and what can be done with it. Read this first.

`fit()` drives `updates()`, which takes each batch through `UpdateCycle.run`, where `backward()` is called: three calls in two
files. `run.assemble` puts the run together, `run.session` resumes, counts, evaluates and saves around each update.
"""

import contextlib
from collections.abc import Callable, Collection, Generator, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Never

import torch
from torch import nn

from instep.data.loading.loader import WorkerCount
from instep.distributed.dtensors import Shard
from instep.doctor.watching import watching
from instep.errors import DescriptionError, Interrupted, die_if_uncaught
from instep.loop.accumulation import OnNonFinite
from instep.loop.objective import ClassWeights, LossFunction
from instep.loop.out_of_memory import OnOutOfMemory
from instep.loop.precision import PrecisionName
from instep.loop.steppers import Objectives, Optimizers
from instep.loop.unfreezing import UnfreezeAt
from instep.optim.average import Average
from instep.optim.clip import Limit
from instep.optim.which_weights import Weights
from instep.records import Evaluation, Plan, Update
from instep.report.plan import render, render_html
from instep.report.progress import progress as show_progress
from instep.run.argument_names import explain_missing, refuse_arguments, refuse_unknown, without_arguments
from instep.run.assemble import assemble
from instep.run.history import History
from instep.run.loggers import Logger
from instep.run.options import NAMES, Options
from instep.schedules import OneCycle

# The finders and the cycles are imported where they are called: most runs call none of them.
if TYPE_CHECKING:
    from instep.tuning.batch_size import BatchSizeSearch
    from instep.tuning.cycles import Cycles
    from instep.tuning.range_test import RangeTest


class Trainer:
    """A training run: what is trained, on what, how, and for how long.

    Arguments that decide the result are recorded, and compared when a run is resumed. `print(trainer)` shows the plan.
    docs/trainer.md has the same list with defaults and examples.

    Model and data:
        model: the nn.Module to train, or several by name: `{"g": G, "d": D}`.
        loss: `loss(model(x), y)` on batches `(x, y)`: a function or a loss module. Without loss and objective, the model's own
            loss is used: `model(**batch).loss`.
        class_weights: "balanced", one weight a class, or `{class: weight}`: how much each class counts in a loss of torch's.
        objective: a function `(model, batch) -> Loss` in place of loss; a 0-dim tensor, or an output with `.loss`, will do too.
            One for each optimizer, by name.
        train: tensors, arrays, a Dataset, a DataLoader, a frame, an iterable; `data.source(…)` says more about one of them.
        valid: validation data, as for train; a share of train, like 0.1; or several sets by name.
        test: test data, as for valid; evaluated once at the end of the run, and by `evaluate("test")`. It decides nothing.
        num_workers: processes that load samples, or "auto"; None: those of a DataLoader, else 0. The batches stay the same.
    Length and batches:
        epochs: passes over the training data. Give epochs, max_steps or both; what comes first ends the run.
        max_steps: updates in all; the run may end inside an epoch.
        batch_size: samples of one update, over all micro-batches and processes; None: 64. A DataLoader brings its own.
        update_cycle: Gradient accumulation: the number of micro-batches of one update. It divides batch_size; the result stays
            the same.
        micro_batch_size: the other way to say it: at most so many samples go through the model at once.
        drop_last: leave out the last batch of an epoch where it is smaller.
        seed: decides everything random: the order of the samples, augmentation, dropout.
    Optimisation:
        optimizer: a torch.optim.Optimizer, a function of the parameters that makes one, or one for each objective, by name.
        schedule: the learning rate of each update: `OneCycle(…)` and others of instep.schedules, a function of the position, or
            a function `(optimizer, total_steps)` that makes one of torch's schedulers.
        update_every: with several objectives: `{"g": 5}` updates g in every fifth update only.
        clip_norm: the largest norm of the gradient; by group name, one for each. `math.inf` only measures it.
        clip_value: the largest absolute value of an entry of the gradient.
        l1: adds l1·Σ|p| to what is minimised, not for biases and norm layers.
        l2: adds l2·Σp², in the same way. Decoupled weight decay is an argument of the optimizer.
        ema: decay of a moving average of the weights, like 0.999. It is evaluated beside them, as `valid/ema/…`.
        swa: stochastic weight averaging: the mean of the weights at the end of each epoch from this one on (the first is 0), or
            from "500 updates" on. It is evaluated beside them, as `valid/swa/…`.
        swa_every: when swa takes in the weights: "epoch", "2 epochs", or a number of updates.
        unfreeze_at: `{3: "backbone"}` trains what `freeze` holds from epoch 3 on (the first epoch is 0).
        on_nonfinite: a loss that is inf or nan: "stop" raises NonFiniteLoss, "skip" leaves the update out.
    Evaluation:
        metrics: names like "accuracy", functions `f(output, target)`, torchmetrics objects; one, several, or by name.
        evaluate_every: "epoch", "2 epochs", a number of updates, or None for never; also after the last update.
        monitor: the number that decides which evaluation is the best; None: the loss of the first validation set.
        monitor_mode: whether "min" or "max" is better; "auto" goes by the metric and its name.
        patience: stop after so many evaluations without a better one; None: never.
        restore_best: end with the weights of the best evaluation, not with the last.
    Run folder:
        folder: where the run is written, and resumed from; None: nothing is written.
        checkpoint_every: "auto" (each epoch, but on the disk at most every 10 s), "epoch", "2 epochs", a number of updates,
            "10 minutes", or None for only the best and the last.
        keep: how many of the last checkpoints stay; the best stay as well. None: all.
        keep_best: how many checkpoints of the best evaluations stay, by the monitored value.
        save_frozen: False leaves weights that take no gradient out of the checkpoints, like the base of a LoRA adapter; the
            script has to make them again.
        allow_changes: names of what may differ from the run in the folder, like ("lr",); else a difference is an error.
        init: weights to begin with: a file, a checkpoint or another run.
        log_every: updates between two rows of the history; a row is the mean over the updates since the one before.
        loggers: where the rows go beside the history: "tensorboard", "mlflow", "wandb", "trackio", "csv", an object with start(),
            log() and finish(), or several of them. They change nothing of the result.
        progress: False shows nothing while training; True and None show a bar in a terminal or a notebook, and lines elsewhere.
    Computing:
        device: "auto" is the accelerator that torch finds, else the CPU; or a torch.device or its name.
        precision: "fp32"; "bf16" and "fp16" use autocast, fp16 with a GradScaler.
        compile: run the model through torch.compile.
        deterministic: use torch's deterministic algorithms for the run, and put the setting back afterwards.
        shard: with several processes, leave each a share of the model (FSDP2): True, or patterns that name the units.
        sync_batchnorm: with several processes, BatchNorm takes its statistics over all of them.
        timeout_s: seconds to wait for another process before the run stops; None: 600.
        on_out_of_memory: "raise", or "split" to split micro-batches that do not fit in memory and repeat the update.
        doctor: watch the run for mistakes, as `instep doctor` does.

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
        class_weights: ClassWeights = None,
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
        swa: int | str | None = None,
        swa_every: int | str = "epoch",
        unfreeze_at: UnfreezeAt | None = None,
        metrics: Any = None,
        evaluate_every: int | str | None = "epoch",
        monitor: str | None = None,
        monitor_mode: Literal["auto", "min", "max"] = "auto",
        patience: int | None = None,
        restore_best: bool = False,
        seed: int = 0,
        folder: str | Path | None = None,
        checkpoint_every: int | str | None = "auto",
        keep: int | None = 3,
        keep_best: int = 1,
        save_frozen: bool = True,
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
        loggers: Logger | str | Iterable[Logger | str] = (),
        progress: bool | None = None,
        doctor: bool = False,
        **unknown: Any,
    ) -> None:
        refuse_unknown(unknown, NAMES)
        self.run = assemble(Options(
            model=model, optimizer=optimizer, train=train, loss=loss, class_weights=class_weights, objective=objective,
            valid=valid, test=test, epochs=epochs, max_steps=max_steps, batch_size=batch_size, update_cycle=update_cycle,
            micro_batch_size=micro_batch_size, drop_last=drop_last, num_workers=num_workers, schedule=schedule,
            update_every=update_every, clip_norm=clip_norm, clip_value=clip_value, l1=l1, l2=l2, ema=ema, swa=swa,
            swa_every=swa_every, unfreeze_at=unfreeze_at, metrics=metrics, evaluate_every=evaluate_every, monitor=monitor,
            monitor_mode=monitor_mode, patience=patience, restore_best=restore_best, seed=seed, folder=folder,
            checkpoint_every=checkpoint_every, keep=keep, keep_best=keep_best, save_frozen=save_frozen,
            allow_changes=allow_changes, init=init, device=device, precision=precision, compile=compile,
            deterministic=deterministic, shard=shard, sync_batchnorm=sync_batchnorm, timeout_s=timeout_s,
            on_nonfinite=on_nonfinite, on_out_of_memory=on_out_of_memory, log_every=log_every,
            loggers=_find_loggers(loggers), progress=progress, doctor=doctor,
        ), show_progress)  # fmt: skip

    # --- The loop

    @without_arguments
    def fit(self, *given: Never, **named: Never) -> History:
        """Train to the end, from where the run in the folder stopped; a finished run is not trained again.

        Ctrl-C and SIGTERM stop after a whole update, save, and raise `errors.Interrupted`.
        """
        refuse_arguments("fit", given, named, NAMES)
        if self.run.state.cycles is not None:
            from instep.tuning.cycling import require_fit

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
            raise die_if_uncaught(Interrupted(interrupt.signal, self.step, self.folder))
        return self.history

    def updates(self) -> Generator[Update]:
        """Train in a loop of your own: yields after each update. After a `break`, the next call continues from there."""
        if self.run.state.is_finished:
            self.run.say_finished()
            return
        with watching(self.run.options.doctor, self.run.keep_findings), self.run.session() as session:
            for batch in session.batches():
                results = {}
                for stepper in session.due():
                    with stepper.turn(batch, self.run.state.step):
                        pieces, expected = stepper.pieces(batch), partial(stepper.expected_count, batch)
                        results[stepper.name] = stepper.run(pieces, stepper.objective, expected)
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
    ) -> "Cycles":
        """Train in cycles: a range test, then one cycle with the learning rate that it suggests, and so on.

        Each cycle has the length of the run (`epochs`, `max_steps`). Training ends after a cycle that improves the monitored
        value by no more than `min_delta`, after `max_cycles`, or where the range test suggests nothing. `schedule` makes the
        schedule of a cycle from a learning rate; `low`, `high`, `steps` and `repeats` are those of `find_lr`. `history.cycles`
        has the choices and the gains. Like fit() it resumes the run in the folder; `max_cycles` may be larger then.

            cycles = trainer.fit_cycles(max_cycles=4)
            print(cycles)
        """
        from instep.tuning.cycles import CycleOptions
        from instep.tuning.cycling import begin_cycles

        options = CycleOptions(max_cycles, min_delta, schedule, low, high, steps, repeats)
        with begin_cycles(self.run, options) as cycling:
            self.fit()
        return cycling.result()

    # --- Looking

    def evaluate(self, data: Any = None, *, weights: Weights | None = None, report: bool = False) -> Evaluation:
        """The loss and the metrics on the validation data, or on `data`: `{"valid/loss": …}`, or `{"data/loss": …}`.

        `evaluate("test")` takes the test data of the Trainer; `evaluate({"a": …, "b": …})` names its numbers `a/loss`, `b/loss`.
        Of a run with `ema=` or `swa=` it has the numbers of the model as it is and those of the averaged weights,
        `valid/ema/loss`; `weights="model"`, `"ema"` or `"swa"` gives one kind. With `report`, `tables` of the
        evaluation has a confusion matrix of each set where the model classifies, in at most 1,000 classes.
        """
        self.run.say_untrained()
        return self.run.evaluate(data, weights, report=report)

    def predict(self, data: Any, *, weights: Weights | None = None) -> Any:
        """The model's outputs in the data's order, on the CPU: for a tensor, the inputs of (x, y), or a mapping.

        Of a run with `ema=` or `swa=` the weights are those that `monitor=` names: the averaged ones with
        `monitor="valid/ema/…"` or `"valid/swa/…"`, else the model's own. `weights="model"`, `"ema"` or `"swa"` says it. Of
        several processes rank 0 gets the outputs, the others None.
        """
        self.run.say_untrained()
        return self.run.predict(data, weights)

    def log(self, **values: float) -> None:
        """Put numbers of your own into the next row of the history; after the last update they get a row of their own."""
        self.run.logbook.log(values)

    def load(self, which: Literal["best", "latest"] | int, *, weights: Weights | None = None) -> None:
        """Give the model the weights of the best evaluation, of the latest checkpoint, or of the checkpoint of a step.

        Of a run with `ema=` or `swa=` the model gets those that `monitor=` names, as in `predict`, and `trainer.ema` and
        `trainer.swa` the averaged ones of that step; `restore_best=True` does the same at the end.
        """
        self.run.load(which, weights)

    def plan(self) -> Plan:
        """What `print(trainer)` shows, as data."""
        return self.run.plan_text()

    def __repr__(self) -> str:
        return render(self.plan())

    def _repr_html_(self) -> str:
        return render_html(self.plan())

    if not TYPE_CHECKING:  # with it, a type checker would take every name for one that is there

        def __getattr__(self, name: str) -> Never:
            raise AttributeError(explain_missing(name, type(self)))

    # --- Trying out

    def find_lr(
        self,
        *,
        low: float = 1e-7,
        high: float = 10.0,
        steps: int = 100,
        mode: Literal["exponential", "linear"] = "exponential",
        smoothing: float = 0.6,
        stop_factor: float = 3.0,
        repeats: int = 2,
        momentum: float | None = None,
    ) -> "RangeTest":
        """A range test: which learning rate to train with, and why. Everything is put back afterwards.

        The learning rate grows from `low` to `high` in this many `steps`, by equal factors or (`mode="linear"`) by equal amounts,
        until the loss is `stop_factor` times its first value. The test is made `repeats` times, each time on other batches.
        `smoothing` is the weight of neighbours in the smoothed curve. `momentum` is used in the test; None is the momentum at the
        peak of the run's OneCycle, or the optimizer's own.

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
        from instep.tuning.range_test import find_lr
        from instep.tuning.sweep import peak_momentum

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
    ) -> "BatchSizeSearch":
        """The largest micro-batch that fits in memory, and how fast each size is. Everything is put back afterwards.

        On an accelerator sizes are tried (`how="trying"`); on a CPU small ones are measured (`how="measuring"`), for a process
        that may use `memory_bytes` (None: what the machine has free). `margin` is the share that stays free, `most` the largest
        size to look at; `paces=False` leaves out the timing.

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
        from instep.tuning.batch_size import find_batch_size

        if self.run.processes.are_several:
            raise DescriptionError(
                "find_batch_size() measures one process; call it in a script that is started without torchrun."
            )
        return find_batch_size(self.run, memory_bytes=memory_bytes, margin=margin, most=most, how=how, paces=paces)

    def dry_run(self) -> Evaluation | None:
        """Two updates and an evaluation. Nothing is written, and everything is put back."""
        from instep.tuning.snapshot import untouched

        with untouched(self.run.model, self.run.steppers[0].optimizer, *self.run.stateful):
            return self.run.dry_run()

    def set_lr(self, lr: float) -> None:
        """Set the learning rate of a run that has not begun: the peak of its OneCycle, or the lr of its parameter groups.

        Groups keep their ratios, and the largest gets `lr`, like `find_lr().suggestion`.
        """
        from instep.tuning.rehearsal import require_one_optimizer

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
        return self.run.averages.ema

    @property
    def swa(self) -> Average | None:
        """The mean of the weights over epochs, where `swa=` asked for one; `swa.module` is a model that has them."""
        return self.run.averages.swa

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


def _find_loggers(given: Logger | str | Iterable[Logger | str]) -> tuple[Logger, ...]:
    """Loggers by their names; most runs have none."""
    if given == ():
        return ()
    from instep.integrations.logger_names import find_loggers

    return find_loggers(given)
