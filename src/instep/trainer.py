"""Trainer: the description of a run, wired. Read this first.

`fit()` drives `updates()`, which takes each batch through `UpdateCycle.run`, where `backward()` is called: three calls in two
files. The rooms do the work: `data` gives the batches, `update` the gradients and the step, `schedules` the learning rate,
`evaluate` the numbers, `history` and `report` say them. Everything that decides the result is in the constructor.
"""

import contextlib
import itertools
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn

from instep import keys
from instep.checkpoint import Checkpoint, steps
from instep.computing import Computing, Precision
from instep.data.feed import Feed, Loading
from instep.data.loader import Batch, WorkerCount
from instep.data.looking import look
from instep.data.pieces import piece
from instep.data.position import Collate, Transform
from instep.data.summary import Preview
from instep.description import Description, as_json, description_notes, plan_of
from instep.device import choose
from instep.doctor.house_call import watching
from instep.errors import DescriptionError, InstepError, Interrupted, NonFiniteGradient, NonFiniteLoss, UpdateError
from instep.examiner import Examiner
from instep.folder import CHECKPOINTS
from instep.history import History
from instep.interrupt import Interrupt
from instep.keeper import Keeper
from instep.learned import Learned
from instep.lineup import Objectives, Optimizers, as_module, average_for, objectives_for, optimizers_for, players_for
from instep.located import located
from instep.logbook import Logbook
from instep.metrics import as_metrics
from instep.modes import Modes
from instep.objective import LossFunction
from instep.optim.clip import Limit
from instep.player import Player
from instep.records import Done, Evaluation, Plan, Update
from instep.report.plan import render
from instep.saver import OnCheckpointError, Saver
from instep.sizes import Sizes
from instep.sums import OnNonFinite
from instep.tuning.batch_size import BatchSizeSearch, find_batch_size
from instep.tuning.range_test import RangeTest, find_lr
from instep.tuning.snapshot import untouched
from instep.tuning.stage import rehearsed, whole
from instep.unfreezing import UnfreezeAt, Unfreezing
from instep.wiring import loss_modules, monitor_for, require_monitor

# Arguments that are described elsewhere in the description, or that do not decide the result.
_NO_SETTINGS = {
    "self", "model", "optimizer", "train", "valid", "folder", "progress", "doctor",
    "log_every", "workers", "checkpoint_every", "keep", "on_checkpoint_error", "allow_changes",
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
        model: nn.Module | Mapping[str, nn.Module],
        *,
        optimizer: Optimizers,
        train: Any,
        loss: LossFunction | None = None,
        objective: Objectives = None,
        valid: Any = None,
        epochs: int | None = None,
        max_steps: int | None = None,
        batch_size: int | None = None,
        update_cycle: int = 1,
        micro_batch_size: int | None = None,
        drop_last: bool = False,
        workers: WorkerCount | None = None,
        sampler: Any = None,
        transform: Transform | None = None,
        valid_transform: Transform | None = None,
        batch_transform: Transform | None = None,
        valid_batch_transform: Transform | None = None,
        collate: Collate | None = None,
        batched_fetch: bool | None = None,
        target: str | Sequence[str] | None = None,
        steps_per_epoch: int | None = None,
        schedule: Any = None,
        every: Mapping[str, int] | None = None,
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
        on_checkpoint_error: OnCheckpointError = "stop",
        allow_changes: Collection[str] = (),
        init: str | Path | None = None,
        device: str | torch.device = "auto",
        precision: Precision = "fp32",
        compile: bool = False,
        channels_last: bool = False,
        deterministic: bool = False,
        on_nonfinite: OnNonFinite = "stop",
        log_every: int = 50,
        progress: bool | None = None,
        doctor: bool = False,
    ) -> None:
        settings = {name: value for name, value in locals().items() if name not in _NO_SETTINGS}
        model = as_module(model)
        self.seed = keys.check_seed(seed)
        self.folder: Path | None = None if folder is None else Path(folder)
        self._logbook: Logbook
        self._doctor = doctor
        placed = choose(device)
        self.device = placed.device
        loading = Loading(
            transform=transform,
            valid_transform=valid_transform,
            batch_transform=batch_transform,
            valid_batch_transform=valid_batch_transform,
            collate=collate,
            batched_fetch=batched_fetch,
            sampler=sampler,
            workers=workers,
            target=target,
            steps_per_epoch=steps_per_epoch,
        )
        feed = self._feed = Feed(train, valid, seed=seed, loading=loading)
        batch_size = feed.batch_size(batch_size, update_cycle=update_cycle, micro_batch_size=micro_batch_size)
        drop_last = feed.drop_last(drop_last)
        settings |= {"batch_size": batch_size, "drop_last": drop_last}
        samples = feed.samples(batch_size)
        self._sizes = Sizes(samples, batch_size, update_cycle, micro_batch_size, drop_last, epochs, max_steps)
        self.batch_size, self.samples = batch_size, samples  # of an update; of an epoch
        self.steps_per_epoch = self._sizes.steps_per_epoch
        self.total_steps = self._sizes.total_steps
        objectives = objectives_for(loss, objective)
        self._metrics = as_metrics(metrics)

        self.model: Any = model.to(self.device)  # several are an nn.ModuleDict
        was_in_eval = not model.training
        if was_in_eval:
            model.train()  # handed over in eval mode as a whole; a single module in eval mode stays there
        self._sizes.require_no_lonely_sample(model)
        if init is not None and not (self.folder is not None and steps(self.folder / CHECKPOINTS)):
            from instep.checkpoint.interchange import load_model

            load_model(model, init)
        self._computing = Computing(
            model,
            self.device,
            precision=precision,
            compile=compile,
            channels_last=channels_last,
            deterministic=deterministic,
        )
        optimizers = optimizers_for(optimizer, list(objectives), model)
        self.optimizer: Any = optimizers.get("", optimizers)  # several are a dictionary
        self._players = players_for(
            model,
            self._computing,
            optimizers,
            objectives,
            sizes=self._sizes,
            schedule=schedule,
            every=every,
            options={"clip_norm": clip_norm, "clip_value": clip_value, "l1": l1, "l2": l2},
            on_nonfinite=on_nonfinite,
            seed=seed,
            device=self.device,
        )
        self._leader = next(player for player in self._players if player.every == 1)
        self._modes = Modes(optimizers.values())
        self._unfreezing = Unfreezing(model, unfreeze_at, self._players)
        settings["unfreeze_at"] = self._unfreezing.told()
        if self._unfreezing.frees_batch_norm():
            self._sizes.require_no_lonely_sample(nn.BatchNorm1d(1))
        self.average = average_for(model, ema, self._modes)
        self._loader = feed.train_loader(
            batch_size=batch_size,
            device=self.device,
            drop_last=drop_last,
            epochs=self._sizes.epochs_begun,
            say=lambda text: self._logbook.note(text),  # noqa: PLW0108  # the logbook is made further down
        )
        self._examiner = Examiner(
            model,
            self._computing,
            objectives,
            self._metrics,
            modes=self._modes,
            average=self.average,
            feed=feed,
            sizes=self._sizes,
            seed=seed,
            device=self.device,
        )
        self._valid = self._examiner.valid_loaders()
        evaluation_step = self._sizes.evaluation_step(evaluate_every)
        self._evaluation_step = evaluation_step if self._valid else None
        self._monitor = monitor_for(
            monitor,
            monitor_mode,
            self._metrics,
            patience=patience,
            restore_best=restore_best,
            sets=list(self._valid) if evaluation_step is not None else [],
            parts=self._examiner.parts,
        )
        self._restore_best = restore_best
        for player in self._players:
            require_monitor(player.drive, self._monitor)
        self.hyper_parameters: dict[str, Any] = {}  # what a command built this from, for the record
        self.script: dict[str, Any] = {}
        self._allow_changes = (allow_changes,) if isinstance(allow_changes, str) else tuple(allow_changes)
        self._logbook = Logbook(
            History(monitor=self._monitor.name, mode=self._monitor.mode) if self._monitor else History(),
            log_every=log_every,
            waited_s=lambda: self._loader.waited_s,
            show=progress,
        )
        first = min(batch_size, samples)
        self._description = Description(
            model=model,
            optimizers=optimizers,
            settings=settings,
            placed=placed,
            train=feed.train,
            valid=feed.valid,
            steps_per_epoch=self.steps_per_epoch,
            total_steps=self.total_steps,
            pieces=self._sizes.pieces(first),
            last_pieces=self._sizes.pieces(self._sizes.last_batch),
            monitor=self._monitor.name if self._monitor else None,
            monitor_mode=self._monitor.mode if self._monitor else "min",
            notes=(
                *(note for player in self._players for note in player.drive.notes),
                *(self.average.notes(self.total_steps) if self.average is not None else ()),
                *self._unfreezing.notes(self._sizes.epochs_begun),
                *description_notes(model, optimizers.values(), was_in_eval=was_in_eval),
            ),
        )
        self._saver = Saver(
            every=checkpoint_every,
            keep=keep,
            on_error=on_checkpoint_error,
            steps_per_epoch=self.steps_per_epoch,
            note=self._logbook.note,
        )
        self._logbook.guarded = self._saver.guarded
        self._keeper = Keeper(
            self._saver,
            self._logbook,
            allow_changes=self._allow_changes,
            schedule=schedule,
            capture=self._captured,
            restore=self._restore,
        )
        self._learned = Learned(
            model, self._players, modes=self._modes, average=self.average, losses=loss_modules(loss, objective)
        )
        self._step = 0
        self._patience_over = False
        self._finished = False
        self._running = False
        self._torn = False  # stopped in the middle of an update, so that the model is neither before nor after it
        self._batch_before: Batch | None = None
        self.resumed_from: int | None = None  # the step of the checkpoint that this Trainer went on from
        self._best_step: int | None = None
        self._best: dict[str, Any] | None = None  # what it had learned, where there is no folder to keep them in

    # --- The loop

    def fit(self) -> History:
        """Train to the end; a finished run is returned as it is. Ctrl-C and SIGTERM end it after a whole update."""
        with Interrupt() as interrupt, contextlib.closing(self.updates()) as updates:
            for _ in updates:
                if interrupt.signal is not None:
                    break
        if interrupt.signal is not None:
            raise Interrupted(interrupt.signal, self._step)
        return self.history

    def updates(self) -> Generator[Update]:
        """Train as a loop of yours: yields after each update. `break`, and the next call goes on from there."""
        if self._finished:
            return
        if self._running:
            raise UpdateError("this Trainer is in the middle of another updates(); close that generator first, or go on with it.")
        self._require_whole()
        notices = self._keeper.enter(self.folder, self.describe, self._step)
        state, self._running = "failed", True
        try:
            self._open(notices)
            with watching(self._doctor), self._computing.algorithms():
                for batch in self._remaining():
                    self._torn = True  # until the update is made and said
                    played = []
                    for player in self._on_turn():
                        player.begin(self._step)
                        try:
                            done = player.cycle.run(self._micro_batches(batch), player.objective)
                        except (NonFiniteLoss, NonFiniteGradient) as error:
                            raise self._located(error, batch, player) from None
                        finally:
                            player.end()
                        played.append(player.recorded(batch, done))
                    update = self._recorded(batch, played)
                    self._torn = False
                    yield update
                state = self._ended()
        except GeneratorExit:
            self._settle()
            state = self._ended() if self._is_over() else "interrupted"
            self._saver.save_last(self._step, self._captured)
            raise
        except BaseException as error:
            state = "interrupted" if isinstance(error, KeyboardInterrupt) else "failed"
            raise
        finally:
            self._running = False
            self._close_loaders()
            self._modes.eval()
            self._logbook.close(state)
            self._keeper.leave(state, self._step)

    def _require_whole(self) -> None:
        """A Trainer that was torn out of an update goes on from its last checkpoint, or not at all."""
        if not self._torn:
            return
        if self.folder is None or not steps(self.folder / CHECKPOINTS):
            raise UpdateError(
                "this Trainer was stopped in the middle of an update, and there is no checkpoint to go on from; make a new one."
            )
        self._keeper.forget()
        self._torn = False

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
            self._unfreezing.reach(epoch)
            self._modes.train()
            for batch in self._loader.batches(epoch, index):
                yield batch
                if self._is_over():
                    return

    def _close_loaders(self) -> None:
        """End the worker processes; they are started again when a batch is asked for."""
        for loader in (self._loader, *self._valid.values()):
            loader.close()

    def _is_over(self) -> bool:
        return self._step >= self.total_steps or self._patience_over

    def _on_turn(self) -> Sequence[Player]:
        """Those who play in this update."""
        return self._players if len(self._players) == 1 else [player for player in self._players if player.plays(self._step)]

    def _micro_batches(self, batch: Batch) -> Iterator[tuple[int, Any]]:
        """The pieces of a batch with their offsets in it."""
        spans = self._sizes.spans(batch.samples)
        if len(spans) == 1:
            yield 0, batch.data
            return
        for start, stop in spans:
            yield start, piece(batch.data, start, stop)

    def _recorded(self, batch: Batch, played: list[Update]) -> Update:
        """Count the update, say it, and evaluate where that is due: at every yield the run is whole."""
        update = played[0] if len(self._players) == 1 else self._together(played)
        index = update.index
        self._step += 1
        if self.average is not None and not all(one.skipped for one in played):
            self.average.update()
        self._batch_before = batch
        epoch_ends = index + 1 == self.steps_per_epoch
        evaluation_due = self._evaluation_step is not None and self._evaluation_due(self._evaluation_step)
        self._logbook.updated(update, line_due=epoch_ends or evaluation_due or self._step == self.total_steps)
        if epoch_ends:
            for player in self._players:
                player.drive.after_epoch()
        if evaluation_due:
            self._settle()  # a model that is spoilt already must be neither judged nor saved
        best = evaluation_due and self._evaluate_and_judge()
        if self._saver.due(self._step) or best:
            self._settle()
            self._saver.save(self._captured())
        return update

    def _together(self, played: list[Update]) -> Update:
        """The update of the one who plays every time, with all of them by name."""
        by_name = dict(zip([player.name for player in self._on_turn()], played, strict=True))
        return by_name[self._leader.name]._replace(players=by_name)

    def _settle(self) -> None:
        for player in self._players:
            player.cycle.settle()

    def _ended(self) -> str:
        self._settle()
        self._saver.save_last(self._step, self._captured)
        if self._restore_best and self._best_step is not None:
            self.load("best")
        self._finished = True
        return "stopped" if self._patience_over else "finished"

    def _located(self, error: InstepError, batch: Batch, player: Player) -> InstepError:
        """Where it happened, for a person who has to find the sample."""
        return located(
            error,
            batch,
            self._batch_before,
            objective=player.name,
            model=self.model,
            loader=self._loader,
            steps_per_epoch=self.steps_per_epoch,
        )

    # --- What a checkpoint keeps

    def _captured(self) -> Checkpoint:
        """The run as it stands between two updates: tensors, counters, and nothing that depends on the clock."""
        state = {
            "step": self._step,
            "monitor": None if self._monitor is None else self._monitor.state(),
            "players": [player.state() for player in self._players],
            "logbook": self._logbook.state(),
            "stream": self._loader.state,
            "standing": self._learned.standing(),
        }
        return Checkpoint(self._step, self._learned.parts(), state, self._best_step)

    def _restore(self, checkpoint: Checkpoint) -> None:
        state = checkpoint.state
        self._unfreezing.reach((state["step"] - 1) // self.steps_per_epoch)  # so that the optimizer has the groups it had
        self._learned.restore(checkpoint.parts, leave=self._allow_changes)
        for player, before in zip(self._players, state["players"], strict=True):
            player.restore(before)
        self._logbook.restore(state["logbook"])
        if self._monitor is not None and state["monitor"] is not None:
            self._monitor.restore(state["monitor"])
        self._step = state["step"]
        self._patience_over = self._monitor is not None and self._monitor.exhausted
        self._learned.stand(state["standing"])
        self._loader.resume(state["stream"])
        self.resumed_from = self._step
        self._best_step = checkpoint.best

    # --- Looking

    def evaluate(self, data: Any = None) -> Evaluation:
        """The loss and the metrics on the validation data, or on `data`: `{"valid/loss": …}`, or `{"data/loss": …}`."""
        loaders = self._valid if data is None else {"data": self._examiner.loader(data)}
        if not loaders:
            raise DescriptionError("there is nothing to evaluate on; pass valid= to the Trainer, or data to evaluate().")
        try:
            numbers = self._examiner.numbers(loaders)
        finally:
            if not self._running or data is not None:
                for loader in loaders.values():
                    loader.close()
        return Evaluation(numbers, self._step, max(0, self._step - 1) // self.steps_per_epoch)

    def predict(self, data: Any) -> Any:
        """The model's outputs in the data's order, on the CPU: for a tensor, the inputs of (x, y), or a mapping."""
        loader = self._examiner.loader(data)
        try:
            return self._examiner.predict(loader)
        finally:
            loader.close()

    def look(
        self,
        *,
        decode: Callable[[Any], str] | None = None,
        mean: tuple[float, ...] | None = None,
        std: tuple[float, ...] | None = None,
    ) -> Preview:
        """The data as the model gets it, summed up; `instep.preview(trainer)` shows it. Leaves no trace."""
        with keys.borrowed(self.device):
            return look(self._feed, batch_size=self._sizes.batch_size, device=self.device, decode=decode, mean=mean, std=std)

    def log(self, **values: float) -> None:
        """Put numbers of your own into the next line of the log; those after the last update get a row of their own."""
        self._logbook.log(values)

    def load(self, which: Literal["best", "latest"] | int) -> None:
        """Give the model the weights of the best evaluation, of the latest checkpoint, or of the checkpoint of a step."""
        if which not in ("best", "latest") and type(which) is not int:
            raise DescriptionError(f'load({which!r}) is not known; use load("best"), load("latest") or the number of a step.')
        if self.folder is not None:
            self._learned.use(self._saver.load(self.folder, which, self._learned.used).parts)
        elif which == "best" and self._best is not None:
            self._learned.use(self._best)
        else:
            missing = "no evaluation has been made" if which == "best" else "the run has no folder for checkpoints"
            raise DescriptionError(f"there is no {which} yet: {missing}.")

    # --- Trying out

    def find_lr(self, **options: Any) -> RangeTest:
        """A range test from where the run stands; it leaves no trace. Options are those of `tuning.range_test.find_lr`."""
        return find_lr(self, **options)

    def find_batch_size(self, **options: Any) -> BatchSizeSearch:
        """The largest micro-batch that fits in memory; it leaves no trace. Options are those of `tuning.batch_size`."""
        return find_batch_size(self, **options)

    def rehearse(self, start: int, *, samples: int | None = None) -> Generator[Done, None, None]:
        """Real updates from a step on that are counted nowhere; what they change is the caller's to put back."""
        if len(self._players) > 1:
            raise DescriptionError("a run with several optimizers cannot be rehearsed: which learning rate is meant?")
        self._modes.train()
        loader = self._feed.train_loader(
            batch_size=self.batch_size if samples is None else samples,
            device=self.device,
            drop_last=self._sizes.drop_last or samples is not None,
        )
        with self._computing.algorithms():
            yield from rehearsed(self._players[0], loader, start, self._sizes.spans if samples is None else whole)

    @property
    def stateful(self) -> tuple[Any, ...]:
        """What an update changes beside the model and the optimizer."""
        return tuple(self._learned.touched())

    def dry_run(self) -> Evaluation | None:
        """Two updates and an evaluation that leave no trace and write nothing."""
        with untouched(self.model, self._players[0].optimizer, *self._learned.touched()), self._computing.algorithms():
            self._modes.train()
            for batch in itertools.islice(self._loader.batches(epoch=0), min(2, self.steps_per_epoch)):
                for player in self._players:
                    player.begin(self._step)
                    player.cycle.run(self._micro_batches(batch), player.objective)
                    player.end()
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
            self._best = self._learned.copy() if self.folder is None else None
        self._logbook.evaluated(evaluation, best=best)
        if self._monitor is not None:
            for player in self._players:
                player.drive.after_evaluation(evaluation[self._monitor.name])
            self._patience_over = self._monitor.exhausted
        return best
