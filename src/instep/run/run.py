"""Run: a training as it was described, assembled. What the Trainer, the command and the finders of `tuning` work with."""

import contextlib
import itertools
import sys
from collections.abc import Callable, Generator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from instep import keys
from instep.checkpoint import Checkpoint, read, restore_model
from instep.data.feed import Feed
from instep.data.inputs import advise_on_rows, inputs_of
from instep.data.loading.loader import Batch, Loader
from instep.distributed.processes import Processes
from instep.distributed.world import World
from instep.errors import DescriptionError, ObjectiveError, give_notice
from instep.loop.batch_plan import BatchPlan
from instep.loop.evaluator import Evaluator
from instep.loop.micro_batches import MicroBatches
from instep.loop.monitor import Monitor, require_monitor
from instep.loop.out_of_memory import Splitting
from instep.loop.precision import Precision
from instep.loop.stepper import Stepper
from instep.loop.torch_losses import known
from instep.loop.unfreezing import Unfreezing
from instep.optim.averages import Averages
from instep.optim.train_eval import Modes
from instep.optim.train_mode import TrainMode
from instep.optim.which_weights import Weights, choose_weights
from instep.records import Evaluation, Plan, SampleLoss, StepResult
from instep.run.changes import ignores_length
from instep.run.checkpoints import Saver
from instep.run.description import Description, as_json
from instep.run.entry import FolderEntry, checkpoints_in
from instep.run.logbook import Logbook, Notices, Progress
from instep.run.loggers import RunLoggers
from instep.run.options import Options
from instep.run.plan import brief_plan_of, plan_of
from instep.run.session import Session
from instep.run.state import RunState
from instep.run.training_state import ModelState
from instep.schedules import drive
from instep.text import plural

if TYPE_CHECKING:
    from instep.data.preview.summary import Preview
    from instep.loop.graph.record import GraphRecord

Show = Callable[[bool | None, Plan], Progress]


class Run:
    """The parts of one run. `assemble` makes it; nothing is added to it afterwards."""

    def __init__(
        self,
        options: Options,
        *,
        processes: Processes,
        device: torch.device,
        feed: Feed,
        loader: Loader,
        valid_loaders: Mapping[str, Loader],
        model: nn.Module,
        precision: Precision,
        modes: Modes,
        unfreezing: Unfreezing,
        averages: Averages,
        splitting: Splitting,
        steppers: tuple[Stepper, ...],
        evaluator: Evaluator,
        monitor: Monitor | None,
        model_state: ModelState,
        state: RunState,
        notices: Notices,
        saver: Saver,
        logbook: Logbook,
        loggers: RunLoggers,
        description: Description,
        show: Show,
    ) -> None:
        self.options = options
        self.processes = processes
        self.device = device
        self.feed = feed
        self.loader = loader
        self.valid_loaders = valid_loaders
        self.model = model
        self.precision = precision
        self.modes = modes
        self.train_mode = TrainMode(model)
        self.unfreezing = unfreezing
        self.averages = averages
        self.has_averages = bool(averages.by_name())
        self.splitting = splitting
        self.steppers = steppers
        self.evaluator = evaluator
        self.monitor = monitor
        self.model_state = model_state
        self.state = state
        self.notices = notices
        self.saver = saver
        self.logbook = logbook
        self.loggers = loggers
        self.entry = FolderEntry()
        self.folder = None if options.folder is None else Path(options.folder)
        self.allow_changes = (options.allow_changes,) if isinstance(options.allow_changes, str) else tuple(options.allow_changes)
        self.is_replay = False  # nothing is written, and the run is not ended
        self.before_update: Callable[[Batch], object] | None = None  # of a replay: called with the batch of each update
        self.leader = next(stepper for stepper in steppers if stepper.every == 1)
        self.hyper_parameters: dict[str, Any] = {}  # what a command built this from, for the record
        self.script: dict[str, Any] = {}
        self.remarks: dict[str, Any] = {}  # what else a command wants to find again in run.json
        self._range_tests: list[Mapping[str, Any]] = []  # that were made for it and are not written yet
        self._description = description
        self._show = show

    @property
    def world(self) -> World:
        return self.processes.world

    @property
    def micro_batches(self) -> MicroBatches:
        return self.splitting.micro_batches

    @property
    def plan(self) -> BatchPlan:
        """How long the run is and how its batches are cut."""
        return self.splitting.micro_batches.plan

    def session(self) -> Session:
        """To be entered for training: the lock, resuming, worker processes, progress; undone however it ends."""
        return Session(self)

    def begin_replay(
        self, checkpoint: Checkpoint | None, *, processes: int, before_update: Callable[[Batch], object] | None = None
    ) -> None:
        """Let the next session make the updates of a recorded run again, from one of its checkpoints or from the start (None).

        It enters no folder and writes nothing. The micro-batches are those that so many processes had, with the same keys.
        """
        self.folder, self.allow_changes, self.is_replay, self.before_update = None, (), True, before_update
        self.entry.checkpoint = checkpoint
        if processes > 1 and not self.processes.are_several:
            self.micro_batches.plan = replace(self.plan, processes=processes, takes_all=True)
            for stepper in self.steppers:
                stepper.keys_each_piece = True

    def try_validation(self) -> None:
        """Send a few samples of the validation and test data through model, loss and metrics, ahead of a run's first update.

        Only where all that is called is the model, and a loss of torch's or a module, whose state can be put back; a compiled
        model would be compiled once more, and of several processes others would wait.
        """
        loss, is_own = self.options.loss, self.options.objective is not None
        if not (self.valid_loaders or self.feed.test) or is_own or self.options.compile or self.processes.are_several:
            return
        if loss is None or isinstance(loss, nn.Module) or known(loss) is not None:
            self.evaluator.try_first_batches()

    def settle(self) -> None:
        """Look at what was left unread of the updates so far: raises where a loss or gradients were not finite. Waits."""
        for stepper in self.steppers:
            stepper.settle()

    def best_steps(self) -> tuple[int, ...]:
        """The steps of the best evaluations so far, as many as `keep_best`; read from the history, which a resumed run has."""
        if self.monitor is None:
            return ()
        return tuple(row["step"] for row in self.logbook.history.best_rows(self.options.keep_best))

    def say_finished(self, *, has_changed: bool = False) -> None:
        """That there is nothing to train, to somebody who started a run that is over; where progress is shown."""
        state = self.state
        if state.cycles is not None or not state.step:
            return
        who = "this Trainer" if self.folder is None else str(self.folder)
        ended = f"is finished ({plural(state.step, 'update')}): nothing"
        if state.why_stopped:
            ended = f"stopped at step {state.step:,}: {state.why_stopped}. Nothing"
        effect = ", so what has changed has no effect" if has_changed else ""
        self.logbook.remark(self.brief_plan(), f"{who} {ended} is left to train{effect}. {self._how_to_go_on()}")

    def _how_to_go_on(self) -> str:
        if self.folder is None:
            return "Make a new one."
        anew = "Use another folder= to train anew"
        if self.state.why_stopped:
            more = ', or a larger patience= with allow_changes=("patience",) to go on' if self.step < self.total_steps else ""
            return f"{anew}{more}."
        longer = self.total_steps + self.state.steps_per_epoch
        goes_on = ignores_length(self.options.schedule, self.total_steps, longer)
        return f"{anew}{', or more epochs= to go on' if goes_on else ''}."

    # --- Looking

    def weights(self, asked: Weights | None = None) -> Weights:
        """The weights that were asked for; without that those that the monitored value judges."""
        monitor = None if self.monitor is None else self.monitor.name
        return choose_weights(asked, monitor=monitor, sets=self.feed.valid, averages=self.averages.by_name())

    def evaluate(self, data: Any = None, weights: Weights | None = None, *, report: bool = False) -> Evaluation:
        """The loss and the metrics on the validation data, or on `data`; of these weights, or of all kinds there are."""
        weights = None if weights is None else self.weights(weights)
        loaders = self.valid_loaders if data is None else self.evaluator.loaders(data)
        if not loaders:
            raise DescriptionError("there is nothing to evaluate on; pass valid= to the Trainer, or data to evaluate().")
        try:
            numbers = self.evaluator.numbers(loaders, weights, report=report)
        finally:
            if not self.state.is_running or data is not None:
                for loader in loaders.values():
                    loader.close()
        step = self.state.step if self.state.weights_step is None else self.state.weights_step
        return Evaluation.of(numbers, step, self.state.epoch_of(step))

    def say_untrained(self) -> None:
        """To somebody who looks at a new model, though the folder has a trained one."""
        state = self.state
        is_new = not (state.step or state.is_running) and state.weights_step is None
        if is_new and self.world.is_first and checkpoints_in(self.folder):
            give_notice(f'{self.folder} holds a run, and these weights are not from it; call load("best") or fit() first.')

    def largest_losses(self, count: int, most: int, weights: Weights | None = None) -> list[SampleLoss]:
        """The samples of the validation data with the largest losses; of each set among the first `most`."""
        loaders = self.evaluator.valid_loaders()
        try:
            return self.evaluator.largest_losses(loaders, self.weights(weights), count, most)
        finally:
            for loader in loaders.values():
                loader.close()

    def predict(self, data: Any, weights: Weights | None = None) -> Any:
        """The model's outputs, with the weights that were asked for or that the monitored value judges."""
        weights = self.weights(weights)
        loader = self.evaluator.loader(data, target_needed=False)
        try:
            return self.evaluator.predict(loader, weights)
        except ObjectiveError as error:
            is_in_memory = isinstance(data, Tensor | np.ndarray | tuple | list)
            advice = advise_on_rows(data, inputs_of(self.example())) if is_in_memory else ""
            if advice:
                raise ObjectiveError(f"{error} {advice}") from error
            raise
        finally:
            loader.close()

    def look(
        self,
        *,
        decode: Callable[[Any], str] | None = None,
        mean: tuple[float, ...] | None = None,
        std: tuple[float, ...] | None = None,
        batches: int | None = None,
    ) -> "Preview":
        """The first batches of the data as the model gets it, summed up; `instep.preview(trainer)` shows it. Leaves no trace."""
        from instep.data.preview.preview import BATCHES, look  # a run that trains needs none of it

        with keys.fork_rng(self.device):
            return look(
                self.feed,
                batch_size=self.plan.batch_size,
                device=self.device,
                batches=batches or BATCHES,
                decode=decode,
                mean=mean,
                std=std,
            )

    def example(self) -> Any:
        """The first batch that the run trains on. Leaves no trace."""
        return self.examples(1, self.batch_size)[0]

    def examples(self, count: int, batch_size: int) -> list[Any]:
        """The first batches of the training data in that size. Leaves no trace."""
        feed = self.feed.for_looking("an example of a batch")
        drop_last = self.plan.drop_last and batch_size == self.batch_size
        loader = feed.train_loader(batch_size=batch_size, device=self.device, drop_last=drop_last, workers=0)
        with contextlib.closing(loader), contextlib.closing(loader.batches(epoch=0)) as batches:
            return [batch.data for batch in itertools.islice(batches, count)]

    def record_graph(self, batch: int = 0, objective: str | None = None) -> "GraphRecord":
        """The autograd graph of the first micro-batch of one of the first batches. Leaves no trace."""
        from instep.loop.graph.capture import capture  # a run that trains needs none of it

        if self.processes.are_several:
            raise DescriptionError("graph() looks at one process; call it in a script that is started without torchrun.")
        stepper = self._stepper_of(objective)
        feed = self.feed.for_looking("graph()")
        loader = feed.train_loader(batch_size=self.batch_size, device=self.device, drop_last=self.plan.drop_last, workers=0)
        with contextlib.closing(loader), contextlib.closing(loader.batches(epoch=0)) as batches:
            found = next(itertools.islice(batches, batch, None), None)
        if found is None:
            raise DescriptionError(f"an epoch has no batch {batch} (the first is 0); use more data or a smaller batch_size.")
        piece = next(iter(stepper.pieces(found)))
        title = f"{f'{stepper.name}, ' if stepper.name else ''}batch {batch}, {plural(feed.layout.size(piece[1]) or 0, 'sample')}"
        looking = self.evaluator.looking(f"graph {stepper.name}")
        with (
            looking,
            keys.fork_rng(self.device),
            self.modes.training(),
            self.precision.algorithms(),
            stepper.looking(found, batch),
        ):
            # not the compiled form of the model, which does not call its modules
            return capture(lambda: stepper.objective(self.model, piece).value, {"": self.model}, piece[1], title)

    def _stepper_of(self, objective: str | None) -> Stepper:
        names = {stepper.name: stepper for stepper in self.steppers}
        if objective is None:
            return self.steppers[0]
        if not objective or objective not in names:
            known = f"there are {', '.join(names)}" if len(names) > 1 else "there is only one, which needs no name"
            raise DescriptionError(f"no objective is called {objective!r}; {known}.")
        return names[objective]

    def load(self, which: Literal["best", "latest"] | int, weights: Weights | None = None) -> None:
        """Give the model the weights of the best evaluation, of the latest checkpoint, or of the checkpoint of a step.

        The averages get their own of that step in any case.
        """
        weights = self.weights(weights)
        if which not in ("best", "latest") and type(which) is not int:
            raise DescriptionError(f'load({which!r}) is not known; use load("best"), load("latest") or the number of a step.')
        if self.folder is not None:
            folder, parts = self.folder, self.model_state.used
            if self.processes.are_sharded:
                path = self.world.run_on_rank0(lambda: self.saver.verified(folder, which))
                shares = self.processes.shares(self.model)
                found = read(path, parts=parts, held=shares, is_verified=True)
            else:
                found = self.world.run_on_rank0(lambda: self.saver.load(folder, which, parts))
            self.model_state.use(found.parts, found.state.get("left_out"))
            self.state.weights_step = found.step
        elif which == "best" and self.state.best_weights is not None:
            self.model_state.use(self.state.best_weights)
            self.state.weights_step = self.state.best_step
        else:
            missing = "no evaluation has been made" if which == "best" else "the run has no folder for checkpoints"
            raise DescriptionError(f"there is no {which} yet: {missing}.")
        if self.averages.have_begun(weights):
            restore_model(self.model, self.evaluator.averaged_state(weights))

    # --- Trying out

    @property
    def optimizer(self) -> Any:
        """The one optimizer, or several by the names of their objectives."""
        return self.steppers[0].optimizer if len(self.steppers) == 1 else {one.name: one.optimizer for one in self.steppers}

    @property
    def batch_size(self) -> int:
        return self.plan.batch_size

    @property
    def samples(self) -> int:
        return self.plan.samples

    @property
    def step(self) -> int:
        return self.state.step

    @property
    def total_steps(self) -> int:
        return self.state.total_steps

    @property
    def stateful(self) -> tuple[Any, ...]:
        """What an update changes beside the model and the optimizer."""
        return tuple(self.model_state.stateful())

    def rehearse(self, start: int, *, samples: int | None = None) -> Generator[StepResult, None, None]:
        """Real updates from a step on that are counted nowhere; what they change is the caller's to put back."""
        from instep.loop.rehearsal import rehearse

        if self.processes.are_sharded:
            raise DescriptionError("a run with shard= cannot be rehearsed; look for a learning rate without it.")
        if len(self.steppers) > 1:
            raise DescriptionError("a run with several optimizers cannot be rehearsed: which learning rate is meant?")
        feed = self.feed.for_looking("find_lr() or find_batch_size()")
        self.modes.train()
        self.train_mode.enter()
        loader = feed.train_loader(
            batch_size=self.batch_size if samples is None else samples,
            device=self.device,
            drop_last=self.plan.drop_last or samples is not None,
            epochs=sys.maxsize,  # without end
            share=self.plan.part if self.processes.are_several else None,
        )
        loader.resume(self.loader.state)  # of an iterable that says where it stands
        updates = rehearse(self.steppers[0], loader, start, self.splitting.quiet(), whole=samples is not None)
        with self.precision.algorithms(), contextlib.closing(updates):
            for result in updates:
                yield result
                self.state.check_interrupt()  # between two cycles

    def dry_run(self) -> Evaluation | None:
        """Two updates and an evaluation; what they change is the caller's to put back."""
        feed = self.feed.for_looking("dry_run()")
        loader = feed.train_loader(
            batch_size=self.batch_size,
            device=self.device,
            drop_last=self.plan.drop_last,
            share=self.plan.part if self.processes.are_several else None,
        )
        loader.may_stay_on_host = self.loader.may_stay_on_host
        with self.precision.algorithms(), contextlib.ExitStack() as closing:
            closing.callback(loader.close)
            self.modes.train()
            self.train_mode.enter()
            batches = closing.enter_context(contextlib.closing(loader.batches(epoch=0)))
            for batch in itertools.islice(batches, min(2, self.state.steps_per_epoch)):
                for stepper in self.steppers:
                    with stepper.turn(batch, self.state.step):
                        stepper.run(stepper.pieces(batch), stepper.objective, partial(stepper.expected_count, batch))
            valid = self.evaluator.valid_loaders(feed)
            for one in valid.values():
                closing.callback(one.close)
            return Evaluation.of(self.evaluator.numbers(valid), self.state.step, self.state.epoch) if valid else None

    def keep_range_test(self, test: Mapping[str, Any]) -> None:
        """Have a range test written to the folder, once there is one."""
        self._range_tests.append({"step": self.state.step, **test})
        if self.state.is_running:
            self.write_range_tests()

    def write_range_tests(self) -> None:
        tests, self._range_tests = self._range_tests, []
        if tests and self.folder is not None and self.world.is_first:
            from instep.run.observed import add_range_test

            for test in tests:
                add_range_test(self.folder, test)

    def keep_findings(self, steps: int, findings: list[dict[str, Any]]) -> None:
        """Write what the doctor found to the folder."""
        if self.folder is not None and self.world.is_first and self.folder.is_dir():
            from instep.run.observed import keep_findings

            keep_findings(self.folder, steps, findings)

    # --- The description

    def plan_text(self) -> Plan:
        """The run before its first step, as data."""
        return plan_of(self._description)

    @property
    def classifies(self) -> bool:
        """Whether the loss is one of torch's for classes; False where nobody knows what it compares."""
        loss = self._description.settings["loss"]
        counted = known(loss) if callable(loss) else None
        return counted is not None and counted.compares not in (None, "numbers")

    def brief_plan(self) -> Plan:
        """What progress shows of it."""
        return brief_plan_of(self._description)

    def describe(self, *, content: bool = True) -> dict[str, Any]:
        """Everything that decides the result, as `run.json` keeps it. Without `content`, data in memory is not read whole."""
        described = as_json(self._description, self.hyper_parameters, content=content) | {"script": self.script, **self.remarks}
        cycles = self.state.cycles
        return described if cycles is None else described | {"cycles": cycles.describe()}

    def moved(self) -> list[str]:
        """What training has changed of what the description says of the model and its code."""
        return self._description.moved()

    @property
    def schedule(self) -> Any:
        return self._description.settings["schedule"]

    def set_folder(self, folder: str | Path) -> None:
        """Where to write, for a run that has not begun."""
        self.folder = Path(folder)

    def set_progress(self, show: bool | None, *, says_end: bool = True) -> None:
        """Whether to show progress: True, False, or None for what suits the terminal; whether it sums up the run at the end."""

        def shown(plan: Plan) -> Progress:
            progress = self._show(show if self.world.is_first else False, plan)
            progress.says_end = says_end
            return progress

        self.logbook.show = shown

    def set_lr(self, lr: float) -> None:
        """The learning rate, for a run that has not begun."""
        from instep.schedules.retuned import retuned

        if self.state.step or self.state.is_running:
            raise DescriptionError(f"the run has begun (step {self.state.step}), so its learning rate cannot be set any more.")
        stepper, before = self.steppers[0], self._description
        schedule = retuned(before.settings["schedule"], stepper.optimizer, lr)
        notes = before.notes[len(stepper.drive.notes) :]  # the drive's stand first
        stepper.drive = drive(schedule, stepper.optimizer, total_steps=max(1, self.total_steps), epochs=self.plan.epochs_begun)
        require_monitor(stepper.drive, self.monitor)
        settings = {**before.settings, "schedule": schedule}
        self._description = replace(before, settings=settings, notes=(*stepper.drive.notes, *notes))
