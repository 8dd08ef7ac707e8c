"""Trainer: the description of a run, wired. Read this first.

`fit()` drives `updates()`, which takes each batch through `UpdateCycle.run`, where `backward()` is called: three calls in two
files. The rooms do the work: `data` gives the batches, `update` the gradients and the step, `schedules` the learning rate,
`evaluate` the numbers, `history` and `report` say them. Everything that decides the result is in the constructor.
"""

import contextlib
import functools
import itertools
import sys
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn

from instep import keys
from instep.checkpoint import Checkpoint, read, steps
from instep.checkpoint.checkpoint_folder import path_of
from instep.data.device import choose
from instep.data.feed import Feed, Loading
from instep.data.loading.loader import Batch, WorkerCount, sent_batch
from instep.data.pieces import piece
from instep.data.position import Collate, Transform
from instep.data.preview.preview import look
from instep.data.preview.summary import Preview
from instep.distributed.interrupt import Interrupt
from instep.distributed.shard import Shard, Shares, require_shardable, require_sharded
from instep.distributed.spread import Spread, first_does, placed_in, prepared
from instep.distributed.state import take_from_first
from instep.distributed.world import World, enter
from instep.doctor.house_call import watching
from instep.errors import DescriptionError, InstepError, Interrupted, NonFiniteGradient, NonFiniteLoss, UpdateError
from instep.loop.accumulation import OnNonFinite
from instep.loop.batch_plan import Sizes, needs_two
from instep.loop.evaluator import Examiner
from instep.loop.metrics import as_metrics
from instep.loop.monitor import monitor_for, require_monitor
from instep.loop.nonfinite import located
from instep.loop.objective import LossFunction
from instep.loop.out_of_memory import OnOverflow, Overflow
from instep.loop.precision import Computing, Precision
from instep.loop.stepper import Player
from instep.loop.steppers import Objectives, Optimizers, as_module, average_for, objectives_for, optimizers_for, players_for
from instep.loop.unfreezing import UnfreezeAt, Unfreezing
from instep.optim.clip import Limit
from instep.optim.train_eval import Modes
from instep.records import Done, Evaluation, Plan, Update
from instep.report.plan import render
from instep.report.progress import progress as show_progress
from instep.run.assemble import load_init, loss_modules
from instep.run.checkpoints import OnCheckpointError, Saver
from instep.run.description import Description, as_json, description_notes, plan_of
from instep.run.folder import CHECKPOINTS
from instep.run.history import History
from instep.run.keeper import Keeper
from instep.run.logbook import Logbook
from instep.run.training_state import Learned
from instep.schedules import OneCycle, drive
from instep.schedules.retuned import retuned
from instep.tuning.batch_size import BatchSizeSearch, find_batch_size
from instep.tuning.cycles import CycleOptions, Cycles
from instep.tuning.cycling import Cycling, require_cycles, require_in_cycles, require_no_cycles
from instep.tuning.range_test import RangeTest, find_lr
from instep.tuning.rehearsal import require_one_optimizer
from instep.tuning.snapshot import untouched
from instep.tuning.stage import rehearsed
from instep.tuning.sweep import Mode, peak_momentum

# Arguments that are described elsewhere in the description, or that do not decide the result.
_NO_SETTINGS = {
    "self", "model", "optimizer", "train", "valid", "folder", "progress", "doctor", "processes", "shard", "timeout_s",
    "log_every", "workers", "checkpoint_every", "keep", "on_checkpoint_error", "allow_changes", "on_overflow",
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
        processes: int | None = None,
        shard: Shard = False,
        sync_batchnorm: bool = False,
        timeout_s: float | None = None,
        on_nonfinite: OnNonFinite = "stop",
        on_overflow: OnOverflow = "raise",
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
        world = enter(processes, timeout_s=timeout_s)
        self.rank, self.processes = (0, 1) if world is None else (world.rank, world.size)
        placed = choose(device) if world is None or device != "auto" else placed_in(world)
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
        batch_size = feed.batch_size(
            batch_size, update_cycle=update_cycle, micro_batch_size=micro_batch_size, processes=self.processes
        )
        drop_last = feed.drop_last(drop_last)
        settings |= {"batch_size": batch_size, "drop_last": drop_last}
        samples = feed.samples(batch_size)
        self._sizes = Sizes(
            samples, batch_size, update_cycle, micro_batch_size, drop_last, epochs, max_steps, self.rank, self.processes
        )
        self._spread = None if world is None else Spread(world, self.device, batch_size=batch_size)
        self.batch_size, self.samples = batch_size, samples  # of an update; of an epoch
        self.steps_per_epoch = self._sizes.steps_per_epoch
        self.total_steps = self._sizes.total_steps
        objectives = objectives_for(loss, objective)
        self._metrics = as_metrics(metrics)

        spread_notes: list[str] = []
        if shard:
            refused = {"ema": ema, "compile": compile, "channels_last": channels_last, "sync_batchnorm": sync_batchnorm}
            require_shardable(shard, optimizer, model, refused | ({"precision": precision} if precision == "fp16" else {}))
            spread_notes = [f"shard={shard!r} has nothing to share with one process: the model stays whole"]
        if not shard or world is None:
            model.to(self.device)  # what is sharded may not fit there as a whole
        self.model: Any = model  # several are an nn.ModuleDict
        was_in_eval = not model.training
        if was_in_eval:
            model.train()  # handed over in eval mode as a whole; a single module in eval mode stays there
        self._sizes.require_no_lonely_sample(model)
        if init is not None:
            first_does(world, functools.partial(load_init, model, init, self.folder))
        if world is not None:
            model, spread_notes = prepared(world, model, sync_batchnorm=sync_batchnorm, device=self.device)
            self.model = model
        self._computing = Computing(
            model,
            self.device,
            precision=precision,
            compile=compile,
            channels_last=channels_last,
            deterministic=deterministic,
        )
        if shard and self._spread is not None:
            spread_notes += self._spread.shard(model, shard)
        optimizers = optimizers_for(optimizer, list(objectives), model)
        if shard:
            require_sharded(optimizers[""], in_shares=self._spread is not None)
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
            turn=None if self._spread is None else self._spread.turn,
        )
        self._leader = next(player for player in self._players if player.every == 1)
        self._modes = Modes(optimizers.values())
        self._unfreezing = Unfreezing(model, unfreeze_at, self._players)
        settings["unfreeze_at"] = self._unfreezing.told()
        frees_batch_norm = self._unfreezing.frees_batch_norm()
        if frees_batch_norm:
            self._sizes.require_no_lonely_sample(nn.BatchNorm1d(1))
        self._sizes = replace(self._sizes, fewest=2 if needs_two(model) or frees_batch_norm else 1)
        losses = loss_modules(loss, objective)
        self._overflow = Overflow(
            on_overflow,
            (model, *losses),
            self.device,
            say=lambda text: self._logbook.note(text),  # noqa: PLW0108  # the logbook is made further down
        )
        if self._overflow.splits and self._spread is not None:
            raise DescriptionError(
                'on_overflow="split" works in one process: others would wait for the one that splits; use a smaller '
                "micro_batch_size."
            )
        self.average = average_for(model, ema, self._modes)
        self._loader = feed.train_loader(
            batch_size=batch_size,
            device=self.device,
            drop_last=drop_last,
            epochs=self._sizes.epochs_begun,
            share=None if self._spread is None else self._sizes.part,
            say=lambda text: self._logbook.note(text),  # noqa: PLW0108
        )
        self._loader.may_stay_on_host = self._overflow.splits and batch_transform is None  # which takes a batch as a whole
        self._examiner = Examiner(
            model,
            self._computing,
            objectives,
            self._metrics,
            modes=self._modes,
            average=self.average,
            feed=feed,
            sizes=self._sizes,
            overflow=self._overflow,
            seed=seed,
            device=self.device,
            spread=self._spread,
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
        self.remarks: dict[str, Any] = {}  # what else a command wants to find again in run.json
        self._allow_changes = (allow_changes,) if isinstance(allow_changes, str) else tuple(allow_changes)
        self._logbook = Logbook(
            History(monitor=self._monitor.name, mode=self._monitor.mode) if self._monitor else History(),
            log_every=log_every,
            waited_s=lambda: self._loader.waited_s,
            show=functools.partial(show_progress, progress if self.rank == 0 else False),
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
                *spread_notes,
            ),
            processes=self.processes,
        )
        shares = self._shares = None if self._spread is None else self._spread.shares(model)
        self._saver = Saver(
            every=checkpoint_every,
            keep=keep,
            on_error=on_checkpoint_error,
            steps_per_epoch=self.steps_per_epoch,
            note=self._logbook.note,
            world=None if shares is None else world,
        )
        self._logbook.guarded = self._saver.guarded
        self._keeper = Keeper(
            self._saver,
            self._logbook,
            allow_changes=self._allow_changes,
            schedule=schedule,
            capture=self._captured,
            restore=self._restore,
            held=shares,
        )
        self._learned = Learned(model, self._players, modes=self._modes, average=self.average, losses=losses)
        self._step = 0
        self._stop = self.total_steps  # where the run ends, or the cycle that it is in
        self._cycling: Cycling | None = None  # of a run in cycles
        self._interrupt: Interrupt | None = None
        self._patience_over = False
        self._finished = False
        self._running = False
        self._torn = False  # stopped in the middle of an update, so that the model is neither before nor after it
        self._batch_before: Batch | None = None
        self.resumed_from: int | None = None  # the step of the checkpoint that this Trainer went on from
        self._best_step: int | None = None
        self._taken_up: Checkpoint | None = None  # that other processes have to take up too
        self._best: dict[str, Any] | None = None  # what it had learned, where there is no folder to keep them in

    # --- The loop

    def fit(self) -> History:
        """Train to the end; a finished run is returned as it is. Ctrl-C and SIGTERM end it after a whole update."""
        if self._cycling is not None and not self._cycling.asked_for:
            require_no_cycles(self._cycling.state() if self._cycling.cycles else None)
            self._cycling, self._stop = None, self.total_steps  # it never came to a cycle
        noting = Interrupt() if self._spread is None else self._spread.interrupt()
        with noting as interrupt, contextlib.closing(self.updates()) as updates:
            self._interrupt = interrupt
            try:
                for _ in updates:
                    if interrupt.signal is not None:
                        break
            finally:
                self._interrupt = None
        if interrupt.signal is not None:
            raise Interrupted(interrupt.signal, self._step)
        return self.history

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
        if self._cycling is None:
            begun_at = self._step or None
            own = self._description.settings["schedule"]
            require_one_optimizer(self)
            monitor = require_cycles(own, self._monitor, total_steps=self.total_steps, begun_at=begun_at)
            self._cycling = Cycling(
                self,
                options,
                player=self._players[0],
                monitor=monitor,
                logbook=self._logbook,
                steps_per_epoch=self.steps_per_epoch,
            )
            self._stop = 0
        else:
            self._cycling.change(options)
            if self._finished and self._cycling.ended is None:
                self._reopen()
        self._loader.lengthen(-(-self.total_steps * max_cycles // self.steps_per_epoch))
        cycling = self._cycling
        with cycling.asked():
            self.fit()
        return cycling.result()

    def _reopen(self) -> None:
        """A finished run goes on: from where it stood, not from the best weights, which it was left with."""
        if self._restore_best and self.folder is None:
            raise DescriptionError(
                "restore_best=True put the best weights into the model, and those to go on from are kept nowhere; ask for all "
                "cycles at once, or give the Trainer a folder."
            )
        if self._restore_best:
            self._keeper.forget()
        self._finished = False

    def updates(self) -> Generator[Update]:
        """Train as a loop of yours: yields after each update. `break`, and the next call goes on from there."""
        if self._finished:
            return
        if self._running:
            raise UpdateError("this Trainer is in the middle of another updates(); close that generator first, or go on with it.")
        self._require_whole()
        notices = self._enter()
        state, self._running, splits = "failed", True, self._overflow.splits
        try:
            self._open(notices)
            with watching(self._doctor), self._computing.algorithms():
                for batch in self._remaining():
                    self._torn = True  # until the update is made and said
                    played = []
                    for player in self._on_turn():
                        player.begin(self._step)
                        done = None
                        try:
                            if splits:
                                self._overflow.keep(player)
                            while done is None:
                                try:
                                    done = player.cycle.run(self._micro_batches(batch), player.objective)
                                    continue
                                except (NonFiniteLoss, NonFiniteGradient) as error:
                                    raise self._located(error, batch, player) from None
                                except (RuntimeError, MemoryError) as error:
                                    self._sizes = self._overflow.finer(error, self._sizes, batch, player)
                                self._overflow.begin_again(player)  # where the error, and all that its frames hold, is gone
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
            if self._spread is not None:
                raise self._spread.failed(error, self._step) from error.__cause__
            raise
        finally:
            self._running = False
            self._close_loaders()
            self._modes.eval()
            self._logbook.close(state)
            self._keeper.leave(state, self._step)

    def _enter(self) -> list[str]:
        """Hold the folder and go on with what is in it; of several processes rank 0 does, and the others take up the same."""
        if self._spread is None:
            return self._keeper.enter(self.folder, self.describe, self._step)
        self._spread.compare(self.describe)
        world = self._spread.world
        notices = world.done_by_first(lambda: self._keeper.enter(self.folder, self.describe, self._step))
        if self._shares is not None:
            self._take_up_shares(self._shares, world)
            return notices
        taken_up, self._taken_up = world.of_first(self._taken_up), None
        if taken_up is not None and not world.is_first:
            self._restore(taken_up)
        self._taken_up = None
        return notices

    def _take_up_shares(self, shares: Shares, world: World) -> None:
        """Each process reads its own share of what rank 0 goes on from, and is ready to write its own."""
        step = world.of_first(None if self._taken_up is None else self._taken_up.step)
        if self.folder is not None and not world.is_first:
            if step is not None:
                self._restore(read(path_of(self.folder / CHECKPOINTS, step), held=shares, is_verified=True))
            self._saver.open(self.folder / CHECKPOINTS)
        self._taken_up = None
        self._saver.saved_step, save_is_due = world.of_first((self._saver.saved_step, self._keeper.save_is_due))
        if save_is_due:
            self._keeper.save_is_due = False
            self._saver.save_now(self._captured())

    def _require_whole(self) -> None:
        """A Trainer that was torn out of an update goes on from its last checkpoint, or not at all."""
        if not self._torn:
            return
        if self.folder is None or self._spread is not None or not steps(self.folder / CHECKPOINTS):
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
            if self._cycling is not None and self._step:
                self._logbook.go_on_to(self._stop)
            for notice in notices:
                self._logbook.note(notice)
            if notices and self._sizes.largest is not None:
                self._logbook.note(f"micro-batches of more than {self._sizes.largest} did not fit in memory: split as before")

    def _remaining(self) -> Iterator[Batch]:
        """The batches from where the run stands to its last."""
        while self._goes_on():
            epoch, index = divmod(self._step, self.steps_per_epoch)
            self._unfreezing.reach(epoch)
            self._modes.train()
            for batch in self._loader.batches(epoch, index):
                yield batch
                if self._step >= self._stop or self._patience_over:
                    break

    def _close_loaders(self) -> None:
        """End the worker processes; they are started again when a batch is asked for."""
        for loader in (self._loader, *self._valid.values()):
            loader.close()

    def _goes_on(self) -> bool:
        """Whether there is another update; between two cycles that is for a range test to say."""
        if self._cycling is not None and self._step >= self._stop and not self._is_over():
            self._cycling.begin_next()
            self._stop = self._cycling.stop
            if self._is_over():
                self._saver.saved_step = None  # what is saved of this step does not know of the end
        return not self._is_over()

    def _is_over(self) -> bool:
        return self._patience_over or (self._step >= self._stop and (self._cycling is None or self._cycling.ended is not None))

    def _on_turn(self) -> Sequence[Player]:
        """Those who play in this update."""
        return self._players if len(self._players) == 1 else [player for player in self._players if player.plays(self._step)]

    def _micro_batches(self, batch: Batch) -> Iterable[tuple[int, Any]]:
        """The pieces of a batch that are computed here, with their offsets in it."""
        own = self._own_pieces(batch)
        return (
            own if self._shares is None or self._spread is None else self._spread.filled_up(own, self._sizes.part, batch.samples)
        )

    def _own_pieces(self, batch: Batch) -> Iterator[tuple[int, Any]]:
        spans = self._sizes.spans(batch.samples)
        if batch.on_host:
            for start, stop in spans:
                yield start, sent_batch(piece(batch.data, start, stop), self.device)
            return
        if len(spans) == 1:
            yield spans[0][0], batch.data
            return
        for start, stop in spans:
            yield start, piece(batch.data, start - spans[0][0], stop - spans[0][0])

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
        self._logbook.updated(update, line_due=epoch_ends or evaluation_due or self._step == self._stop)
        if epoch_ends:
            for player in self._players:
                player.drive.after_epoch()
        if evaluation_due:
            self._settle()  # a model that is spoilt already must be neither judged nor saved
        best = evaluation_due and self._evaluate_and_judge()
        if self._saver.due(self._step) or best or (self._cycling is not None and self._step == self._stop):
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
        if self._spread is not None:
            take_from_first(self._learned.buffers())
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
            rank=None if self._spread is None else self.rank,
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
            "cycles": None if self._cycling is None else self._cycling.state(),
            "finer_split": {"training": self._sizes.largest, "evaluation": self._examiner.largest},
        }
        return Checkpoint(self._step, self._learned.parts(), state, self._best_step)

    def _restore(self, checkpoint: Checkpoint) -> None:
        self._taken_up = checkpoint if self._spread is not None else None
        state = checkpoint.state
        if self._cycling is None:
            require_no_cycles(state.get("cycles"))
        else:
            require_in_cycles(state.get("cycles"), state["step"])
        self._unfreezing.reach((state["step"] - 1) // self.steps_per_epoch)  # so that the optimizer has the groups it had
        self._learned.restore(checkpoint.parts, leave=self._allow_changes)
        for player, before in zip(self._players, state["players"], strict=True):
            player.restore(before)
        self._logbook.restore(state["logbook"])
        if self._monitor is not None and state["monitor"] is not None:
            self._monitor.restore(state["monitor"])
        finer = state.get("finer_split", {})  # a checkpoint of an older version has none
        self._sizes, self._examiner.largest = replace(self._sizes, largest=finer.get("training")), finer.get("evaluation")
        self._step = state["step"]
        self._patience_over = self._monitor is not None and self._monitor.exhausted
        if self._cycling is not None:
            self._cycling.restore(state["cycles"])
            self._stop = self._cycling.stop
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
        """The model's outputs in the data's order, on the CPU: for a tensor, the inputs of (x, y), or a mapping.

        Of several processes rank 0 gets them, the others None.
        """
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
            folder = self.folder
            if self._shares is not None and self._world is not None:
                path = self._world.done_by_first(lambda: self._saver.verified(folder, which))
                self._learned.use(read(path, parts=self._learned.used, held=self._shares, is_verified=True).parts)
                return
            self._learned.use(first_does(self._world, lambda: self._saver.load(folder, which, self._learned.used).parts))
        elif which == "best" and self._best is not None:
            self._learned.use(self._best)
        else:
            missing = "no evaluation has been made" if which == "best" else "the run has no folder for checkpoints"
            raise DescriptionError(f"there is no {which} yet: {missing}.")

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
            momentum = peak_momentum(self._description.settings["schedule"])
        return find_lr(
            self,
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
        if self._spread is not None:
            raise DescriptionError(
                "find_batch_size() measures one process; call it in a script that is started without torchrun."
            )
        return find_batch_size(self, memory_bytes=memory_bytes, margin=margin, most=most, how=how, paces=paces)

    def rehearse(self, start: int, *, samples: int | None = None) -> Generator[Done, None, None]:
        """Real updates from a step on that are counted nowhere; what they change is the caller's to put back."""
        if self._shares is not None:
            raise DescriptionError("a run with shard= cannot be rehearsed; look for a learning rate without it.")
        if len(self._players) > 1:
            raise DescriptionError("a run with several optimizers cannot be rehearsed: which learning rate is meant?")
        self._modes.train()
        loader = self._feed.train_loader(
            batch_size=self.batch_size if samples is None else samples,
            device=self.device,
            drop_last=self._sizes.drop_last or samples is not None,
            epochs=sys.maxsize,  # without end
            share=None if self._spread is None else self._sizes.part,
        )
        sizes = self._sizes if samples is None else None
        updates = rehearsed(self._players[0], loader, start, sizes, self._overflow.quiet())
        with self._computing.algorithms(), contextlib.closing(updates):
            for done in updates:
                yield done
                if self._interrupt is not None and self._interrupt.signal is not None:  # between two cycles
                    raise Interrupted(self._interrupt.signal, self._step)

    @property
    def _world(self) -> World | None:
        return None if self._spread is None else self._spread.world

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
        told = as_json(self._description, self.hyper_parameters) | {"script": self.script, **self.remarks}
        return told if self._cycling is None else told | {"cycles": self._cycling.described()}

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

    def set_lr(self, lr: float) -> None:
        """The learning rate, for a run that has not begun: the peak of its OneCycle, or what its groups start from.

        Groups keep their ratios, and the largest gets `lr` itself; `find_lr().suggestion` is such a number.
        """
        require_one_optimizer(self)
        if self._step or self._running:
            raise DescriptionError(f"the run has begun (step {self._step}), so its learning rate cannot be set any more.")
        player, before = self._players[0], self._description
        schedule = retuned(before.settings["schedule"], player.optimizer, lr)
        notes = before.notes[len(player.drive.notes) :]  # the drive's stand first
        player.drive = drive(schedule, player.optimizer, total_steps=max(1, self.total_steps), epochs=self._sizes.epochs_begun)
        require_monitor(player.drive, self._monitor)
        settings = {**before.settings, "schedule": schedule}
        self._description = replace(before, settings=settings, notes=(*player.drive.notes, *notes))

    def set_progress(self, show: bool | None) -> None:
        """Whether to show progress: True, False, or None for what suits the terminal."""
        self._logbook.show = functools.partial(show_progress, show if self.rank == 0 else False)  # rank 0 speaks

    def _evaluation_due(self, every: int) -> bool:
        return self._step % every == 0 or self._step == self._stop

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
            if self._cycling is not None and (self._step == self._stop or self._patience_over):
                self._cycling.finish(self._step, evaluation[self._monitor.name], patience_over=self._patience_over)
        return best
