"""Trainer: the description of a run, wired. Read this first.

`fit()` drives `updates()`, which takes each batch through `UpdateCycle.run`, where `backward()` is called: three calls in two
files. The rooms do the work: `data` gives the batches, `update` the gradients and the step, `schedules` the learning rate,
`evaluate` the numbers, `history` and `report` say them. Everything that decides the result is in the constructor.
"""

import copy
import itertools
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from instep import keys
from instep.buffers import passing_buffers, restore_passing_buffers
from instep.checkpoint import Checkpoint, capture_optimizer, restore_model, restore_optimizer
from instep.data.loader import Batch, Loader
from instep.data.pieces import piece
from instep.data.source import Source, as_source
from instep.description import Description, as_json, description_notes, plan_of
from instep.device import choose
from instep.errors import DescriptionError, InstepError, Interrupted, NonFiniteGradient, NonFiniteLoss, UpdateError
from instep.evaluate import evaluate, predict
from instep.history import History
from instep.interrupt import Interrupt
from instep.keeper import Keeper
from instep.logbook import Logbook
from instep.metrics import as_metrics
from instep.objective import Loss, LossFunction, Objective, as_loss
from instep.records import Done, Evaluation, Plan, Update
from instep.report.plan import render
from instep.saver import OnCheckpointError, Saver
from instep.schedules import drive
from instep.sizes import Sizes
from instep.sums import OnNonFinite
from instep.tuning.snapshot import untouched
from instep.update import UpdateCycle
from instep.wiring import MakeOptimizer, monitor_for, objective_for, optimizer_for, sources

# Arguments that are described elsewhere in the description, or that do not decide the result.
_NO_SETTINGS = {
    "self", "model", "optimizer", "train", "valid", "folder", "progress",
    "log_every", "checkpoint_every", "keep", "on_checkpoint_error", "allow_changes",
}  # fmt: skip


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
        model: nn.Module,
        *,
        optimizer: Optimizer | MakeOptimizer,
        train: Any,
        loss: LossFunction | None = None,
        objective: Objective | None = None,
        valid: Any = None,
        epochs: int | None = None,
        max_steps: int | None = None,
        batch_size: int = 64,
        update_cycle: int = 1,
        micro_batch_size: int | None = None,
        drop_last: bool = False,
        schedule: Any = None,
        clip_norm: float | None = None,
        clip_value: float | None = None,
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
        on_checkpoint_error: OnCheckpointError = "stop",
        allow_changes: Collection[str] = (),
        init: str | Path | None = None,
        device: str | torch.device = "auto",
        on_nonfinite: OnNonFinite = "stop",
        log_every: int = 50,
        progress: bool | None = None,
    ) -> None:
        settings = {name: value for name, value in locals().items() if name not in _NO_SETTINGS}
        if not isinstance(model, nn.Module):
            raise DescriptionError(f"model is a {type(model).__name__}; pass a torch.nn.Module.")
        self.seed = keys.check_seed(seed)
        placed = choose(device)
        self.device = placed.device
        train_source, valid_sources = sources(train, valid, seed)
        self._sizes = Sizes(len(train_source), batch_size, update_cycle, micro_batch_size, drop_last, epochs, max_steps)
        self.steps_per_epoch = self._sizes.steps_per_epoch
        self.total_steps = self._sizes.total_steps
        self._objective = objective_for(loss, objective)
        self._metrics = as_metrics(metrics)

        self.model = model.to(self.device)
        was_in_eval = not model.training
        if was_in_eval:
            model.train()  # handed over in eval mode as a whole; a single module in eval mode stays there
        self._sizes.require_no_lonely_sample(model)
        self.optimizer = optimizer_for(optimizer, model)
        self._drive = drive(schedule, self.optimizer, total_steps=max(1, self.total_steps), epochs=self._sizes.epochs_begun)
        self._cycle = UpdateCycle(
            self.optimizer, model=model, clip_norm=clip_norm, clip_value=clip_value, on_nonfinite=on_nonfinite
        )
        self._loader = Loader(
            train_source, batch_size=batch_size, seed=seed, device=self.device, shuffle=True, drop_last=drop_last
        )
        self._valid = {name: self._evaluation_loader(source) for name, source in valid_sources.items()}
        evaluation_step = self._sizes.evaluation_step(evaluate_every)
        self._evaluation_step = evaluation_step if self._valid else None
        self._monitor = monitor_for(
            monitor,
            monitor_mode,
            self._metrics,
            patience=patience,
            restore_best=restore_best,
            sets=list(self._valid) if evaluation_step is not None else [],
        )
        self._restore_best = restore_best
        if self._drive.monitor_mode is not None and self._monitor is not None and self._drive.monitor_mode != self._monitor.mode:
            raise DescriptionError(
                f"the schedule takes {self._monitor.name} for a number to {self._drive.monitor_mode}imise, the monitor for one "
                f'to {self._monitor.mode}imise; give ReduceLROnPlateau mode="{self._monitor.mode}".'
            )
        if self._drive.needs_monitor and (self._monitor is None or self._evaluation_step is None):
            raise DescriptionError(
                "this schedule goes by the monitored value, so it needs evaluations; pass valid= and evaluate_every=."
            )
        self.hyper_parameters: dict[str, Any] = {}  # what a command built this from, for the record
        self.script: dict[str, Any] = {}
        self.folder = None if folder is None else Path(folder)
        self._allow_changes = (allow_changes,) if isinstance(allow_changes, str) else tuple(allow_changes)
        self._logbook = Logbook(
            History(monitor=self._monitor.name, mode=self._monitor.mode) if self._monitor else History(),
            log_every=log_every,
            waited_s=lambda: self._loader.waited_s,
            show=progress,
        )
        first = min(batch_size, len(train_source))
        self._description = Description(
            model=model,
            optimizer=self.optimizer,
            settings=settings,
            placed=placed,
            train=train_source,
            valid=valid_sources,
            steps_per_epoch=self.steps_per_epoch,
            total_steps=self.total_steps,
            pieces=self._sizes.pieces(first),
            last_pieces=self._sizes.pieces(self._sizes.last_batch),
            monitor=self._monitor.name if self._monitor else None,
            monitor_mode=self._monitor.mode if self._monitor else "min",
            notes=(*self._drive.notes, *description_notes(model, self.optimizer, was_in_eval=was_in_eval)),
        )
        self._saver = Saver(
            every=checkpoint_every,
            keep=keep,
            on_error=on_checkpoint_error,
            steps_per_epoch=self.steps_per_epoch,
            note=self._logbook.note,
        )
        self._keeper = Keeper(
            self._saver,
            self._logbook,
            allow_changes=self._allow_changes,
            schedule=schedule,
            capture=self._captured,
            restore=self._restore,
        )
        self._seed_torch = keys.torch_seeder(self.device)
        self._step = 0
        self._skipped = 0
        self._patience_over = False
        self._finished = False
        self._running = False
        self._batch_before: Batch | None = None
        self.resumed_from: int | None = None  # the step of the checkpoint that this Trainer went on from
        self._best_step: int | None = None
        self._best: dict[str, Any] | None = None  # its weights, where there is no folder to keep them in
        if init is not None:
            from instep.checkpoint.interchange import load_model

            load_model(model, init)

    # --- The loop

    def fit(self) -> History:
        """Train to the end; a finished run is returned as it is. Ctrl-C and SIGTERM end it after a whole update."""
        with Interrupt() as interrupt:
            for _ in self.updates():
                if interrupt.signal is not None:
                    raise Interrupted(interrupt.signal, self._step)
        return self.history

    def updates(self) -> Iterator[Update]:
        """Train as a loop of yours: yields after each update. `break`, and the next call goes on from there."""
        if self._finished:
            return
        if self._running:
            raise UpdateError("this Trainer is in the middle of another updates(); close that generator first, or go on with it.")
        notices = self._keeper.enter(self.folder, self.describe, self._step)
        state, self._running = "failed", True
        try:
            self._open(notices)
            for batch in self._remaining():
                self._drive.before_update(self._step - self._skipped)
                try:
                    done = self._cycle.run(self._micro_batches(batch), self._keyed_objective)
                except (NonFiniteLoss, NonFiniteGradient) as error:
                    raise self._located(error, batch) from None
                yield self._recorded(batch, done)
            state = self._ended()
        except GeneratorExit:
            state = self._ended() if self._is_over() else "interrupted"
            self._saver.save_last(self._step, self._captured)
            raise
        except KeyboardInterrupt:
            state = "interrupted"  # in the middle of an update: what the last checkpoint holds is what is left
            raise
        finally:
            self._running = False
            self._logbook.close(state)
            self._keeper.leave(state, self._step)

    def _open(self, notices: list[str]) -> None:
        """Nothing is shown of a run that is over already."""
        self._keeper.set_status("running", self._step)
        if not self._is_over():
            self._logbook.open(self.plan(), self._step)
            for notice in notices:
                self._logbook.note(notice)

    def _remaining(self) -> Iterator[Batch]:
        """The batches from where the run stands to its last."""
        while not self._is_over():
            epoch, index = divmod(self._step, self.steps_per_epoch)
            for batch in self._loader.batches(epoch, index):
                yield batch
                if self._is_over():
                    return

    def _is_over(self) -> bool:
        return self._step >= self.total_steps or self._patience_over

    def _micro_batches(self, batch: Batch) -> Iterator[tuple[int, Any]]:
        """The pieces of a batch with their offsets in it."""
        spans = self._sizes.spans(batch.samples)
        if len(spans) == 1:
            yield 0, batch.data
            return
        for start, stop in spans:
            yield start, piece(batch.data, start, stop)

    def _keyed_objective(self, model: nn.Module, micro_batch: tuple[int, Any]) -> Loss:
        """The objective under the key of its step and offset; Python's and NumPy's generators are keyed once an update."""
        offset, data = micro_batch
        key = keys.for_step(self.seed, self._step, offset)
        if offset == 0:
            keys.seed_host(key)
        self._seed_torch(key)
        loss = self._objective(model, data)
        return loss if isinstance(loss, Loss) else as_loss(loss, data)

    def _recorded(self, batch: Batch, done: Done) -> Update:
        """Count the update, say it, and evaluate where that is due: at every yield the run is whole."""
        loss, count, grad_norm, stepped, clipped, penalty = done
        _, epoch, index, samples, _ = batch
        lrs = tuple([float(group["lr"]) for group in self.optimizer.param_groups])
        update = Update(self._step, epoch, index, loss, count, samples, lrs, grad_norm, not stepped, clipped, penalty)
        self._step += 1
        if stepped:
            self._drive.after_update()
        else:
            self._skipped += 1
        self._batch_before = batch
        epoch_ends = index + 1 == self.steps_per_epoch
        evaluation_due = self._evaluation_step is not None and self._evaluation_due(self._evaluation_step)
        self._logbook.updated(update, line_due=epoch_ends or evaluation_due or self._step == self.total_steps)
        if epoch_ends:
            self._drive.after_epoch()
        if evaluation_due:
            self._cycle.settle()  # a model that is spoilt already must be neither judged nor saved
        best = evaluation_due and self._evaluate_and_judge()
        if self._saver.due(self._step) or best:
            self._cycle.settle()
            self._saver.save(self._captured())
        return update

    def _ended(self) -> str:
        self._cycle.settle()
        self._saver.save_last(self._step, self._captured)
        if self._restore_best and self._best_step is not None:
            self.load("best")
        self._finished = True
        return "stopped" if self._patience_over else "finished"

    def _located(self, error: InstepError, batch: Batch) -> InstepError:
        """Where it happened, for a person who has to find the sample."""
        late = isinstance(error, NonFiniteLoss) and error.late and self._batch_before is not None
        if late and self._batch_before is not None:
            batch = self._batch_before
        step = batch.epoch * self.steps_per_epoch + batch.index
        spoilt = [name for name, p in self.model.named_parameters() if not torch.isfinite(p).all()]
        return type(error)(
            f"step {step} (epoch {batch.epoch}, batch {batch.index}): {error} "
            f"The batch has the samples {_listed(self._loader.origin(batch.indices))}."
            + (f" Weights that are not finite: {', '.join(spoilt[:8])}; an update before spoilt them." if spoilt else "")
        )

    # --- What a checkpoint keeps

    def _captured(self) -> Checkpoint:
        """The run as it stands between two updates: tensors, counters, and nothing that depends on the clock."""
        state = {
            "step": self._step,
            "skipped": self._skipped,
            "patience_over": self._patience_over,
            "monitor": None if self._monitor is None else self._monitor.state(),
            "schedule": self._drive.state_dict(),
            "logbook": self._logbook.state(),
        }
        parts: dict[str, Any] = {
            "model": self.model.state_dict(),
            "optimizer": capture_optimizer(self.optimizer, self.model.named_parameters()),
        }
        if passing := passing_buffers(self.model):
            parts["buffers"] = passing
        return Checkpoint(self._step, parts, state, self._best_step)

    def _restore(self, checkpoint: Checkpoint) -> None:
        state = checkpoint.state
        restore_model(self.model, checkpoint.parts["model"])
        restore_passing_buffers(self.model, checkpoint.parts.get("buffers", {}))
        restore_optimizer(self.optimizer, checkpoint.parts["optimizer"], self.model.named_parameters(), leave=self._allow_changes)
        self._drive.load_state_dict(state["schedule"])
        self._logbook.restore(state["logbook"])
        if self._monitor is not None and state["monitor"] is not None:
            self._monitor.restore(state["monitor"])
        self._step, self._skipped, self._patience_over = state["step"], state["skipped"], state["patience_over"]
        self.resumed_from = self._step
        self._best_step = checkpoint.best

    # --- Looking

    def evaluate(self, data: Any = None) -> Evaluation:
        """The loss and the metrics on the validation data, or on `data`: `{"valid/loss": …}`, or `{"data/loss": …}`."""
        loaders = self._valid if data is None else {"data": self._evaluation_loader(as_source(data, "data"))}
        if not loaders:
            raise DescriptionError("there is nothing to evaluate on; pass valid= to the Trainer, or data to evaluate().")
        numbers = {
            f"{name}/{part}": number
            for name, loader in loaders.items()
            for part, number in evaluate(
                self.model, loader, self._objective, self._metrics, seed=self.seed, device=self.device
            ).items()
        }
        return Evaluation(numbers, self._step, max(0, self._step - 1) // self.steps_per_epoch)

    def predict(self, data: Any) -> Any:
        """The model's outputs in the data's order, on the CPU: for a tensor, the inputs of (x, y), or a mapping."""
        return predict(self.model, self._evaluation_loader(as_source(data, "data")), seed=self.seed, device=self.device)

    def log(self, **values: float) -> None:
        """Put numbers of your own into the next line of the log; those after the last update get a row of their own."""
        self._logbook.log(values)

    def load(self, which: Literal["best", "latest"] | int) -> None:
        """Give the model the weights of the best evaluation, of the latest checkpoint, or of the checkpoint of a step."""
        if which not in ("best", "latest") and type(which) is not int:
            raise DescriptionError(f'load({which!r}) is not known; use load("best"), load("latest") or the number of a step.')
        if self.folder is not None:
            restore_model(self.model, self._saver.load(self.folder, which).parts["model"])
        elif which == "best" and self._best is not None:
            self.model.load_state_dict(self._best)
        else:
            missing = "no evaluation has been made" if which == "best" else "the run has no folder for checkpoints"
            raise DescriptionError(f"there is no {which} yet: {missing}.")

    def dry_run(self) -> Evaluation | None:
        """Two updates and an evaluation that leave no trace and write nothing."""
        with untouched(self.model, self.optimizer):
            for batch in itertools.islice(self._loader.batches(epoch=0), min(2, self.steps_per_epoch)):
                self._drive.before_update(0)
                self._cycle.run(self._micro_batches(batch), self._keyed_objective)
            return self.evaluate() if self._valid else None

    def plan(self) -> Plan:
        """The run before its first step, as data."""
        return plan_of(self._description)

    def describe(self) -> dict[str, Any]:
        """Everything that decides the result, as `run.json` keeps it."""
        return as_json(self._description, self.hyper_parameters) | {"script": self.script}

    def example(self) -> Any:
        """The first batch that the run trains on."""
        return next(iter(self._loader.batches(epoch=0))).data

    def __repr__(self) -> str:
        return render(self.plan())

    @property
    def history(self) -> History:
        """What the run has said so far."""
        return self._logbook.history

    @property
    def step(self) -> int:
        """Update cycles begun so far."""
        return self._step

    def set_folder(self, folder: str | Path) -> None:
        """Where to write, for a run that has not begun."""
        self.folder = Path(folder)

    def set_progress(self, show: bool | None) -> None:
        """Whether to show progress: True, False, or None for what suits the terminal."""
        self._logbook.show = show

    def _evaluation_due(self, every: int) -> bool:
        return self._step % every == 0 or self._step == self.total_steps

    def _evaluate_and_judge(self) -> bool:
        """True where it is the best so far."""
        evaluation = self.evaluate()
        best = self._monitor is not None and self._monitor.see(evaluation)
        if best:
            self._best_step = self._step
            self._best = copy.deepcopy(self.model.state_dict()) if self.folder is None else None
        self._logbook.evaluated(evaluation, best=best)
        if self._monitor is not None:
            self._drive.after_evaluation(evaluation[self._monitor.name])
            self._patience_over = self._monitor.exhausted
        return best

    def _evaluation_loader(self, source: Source) -> Loader:
        """In the data's own order, in batches as large as the largest micro-batch."""
        size = max(self._sizes.pieces(min(self._sizes.batch_size, self._sizes.samples)))
        return Loader(source, batch_size=size, seed=keys.for_evaluation(self.seed), device=self.device, shuffle=False)


def _with_start(allowed: tuple[str, ...]) -> tuple[str, ...]:
    """Who may change lr may change where the schedule starts from."""
    return (*allowed, "initial_lr") if "lr" in allowed else allowed


def _listed(indices: Tensor) -> str:
    """The first and last of many indices; all of a few."""
    shown = [str(index) for index in indices.tolist()]
    return ", ".join(shown if len(shown) <= 64 else [*shown[:60], "…", *shown[-2:]])
