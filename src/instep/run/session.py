"""Session: a run while it trains, from the lock of its folder to the last save; undone however it ends.

with run.session() as session:
    for batch in session.batches():
        …
        session.finish_update(batch, results)
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING

from instep.checkpoint import Checkpoint, read
from instep.checkpoint.checkpoint_folder import path_of
from instep.data.loading.loader import Batch
from instep.errors import InstepError, NonFiniteGradient, NonFiniteLoss, UpdateError
from instep.loop.first_batch import look_after, require_gradients
from instep.loop.freed_memory import keep_freed_memory
from instep.loop.stepper import Stepper
from instep.optim.train_mode import say_in_eval
from instep.records import StepResult, Update
from instep.run.entry import Found, checkpoints_in
from instep.run.folder import CHECKPOINTS
from instep.run.nan_value import name_replay, say_nan
from instep.run.training_state import capture, restore

if TYPE_CHECKING:
    from instep.run.run import Run


class Session:
    """Made anew by each `updates()`; the run keeps what outlives it."""

    def __init__(self, run: "Run") -> None:
        self._run = run
        self._settings = ExitStack()  # of torch and of the process, while it trains
        self._ended_as = "failed"
        self._is_nan_said = False  # of the monitored value
        self._is_in_train_mode = True  # the model, as far as was said

    def __enter__(self) -> "Session":
        run = self._run
        if run.state.is_running:
            raise UpdateError("this Trainer is in the middle of another updates(); close that generator first, or go on with it.")
        self._require_whole()
        if not run.is_replay:
            run.loggers.require(run.folder)
        run.train_mode.enter()  # before a checkpoint says in which modes the run goes on
        if run.folder is not None or run.is_replay:
            run.model_state.attributes.begin()  # before a checkpoint or an update changes them
        if not (run.state.step or run.state.is_over() or checkpoints_in(run.folder) or run.is_replay):
            run.try_validation()  # before anything is written
        found = self._resume()
        run.state.is_running, run.state.folder = True, run.folder
        self._is_in_train_mode = run.model.training
        try:
            run.entry.set_status("running", run.state.step)
            run.write_range_tests()
            self._begin_showing(found)
            self._settings.enter_context(run.precision.algorithms())
            self._settings.enter_context(keep_freed_memory(run.device))
            self._watch_first_update()
        except BaseException as error:
            self._settings.close()
            self._close(after=error)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        run = self._run
        try:
            self._settings.close()
            if run.is_replay and (error is None or isinstance(error, GeneratorExit)):
                self._ended_as = "interrupted"  # somebody wants to look here; the run ended elsewhere
            elif error is None:
                self._ended_as = self._finish()
            elif isinstance(error, GeneratorExit):  # the user's loop has left; at a yield the run is whole
                run.settle()
                self._ended_as = self._finish() if run.state.is_over() else "interrupted"
                run.saver.save_last(run.state.step, lambda: capture(run))
            else:
                self._ended_as = "interrupted" if isinstance(error, KeyboardInterrupt) else "failed"
                if isinstance(error, NonFiniteLoss | NonFiniteGradient):
                    name_replay(error, run)
                explained = run.processes.explain(error, run.state.step)
                if explained is not error:
                    raise explained from error.__cause__
        except BaseException as late:
            if isinstance(late, NonFiniteLoss | NonFiniteGradient) and late is not error:
                name_replay(late, run)  # noticed when the run ended, on an accelerator
            self._close(after=late)
            raise
        self._close(after=None if isinstance(error, GeneratorExit) else error)

    def _watch_first_update(self) -> None:
        """Look at the first loss of a run, and at the gradients before its first step."""
        run = self._run
        if run.state.step or run.is_replay:
            return
        for stepper in run.steppers:
            stepper.watch_first_loss(is_said=run.world.is_first)
        stepper = run.steppers[0]
        if run.folder is not None:
            self._settings.callback(look_after(run.leader.optimizer, run.model_state.attributes.look, times=2).remove)
        if len(run.steppers) == 1 and not stepper.cycle.needs_closure and not run.processes.are_sharded:
            handle = require_gradients(stepper.optimizer, run.model)
            self._settings.callback(handle.remove)

    # --- The loop

    def batches(self) -> Iterator[Batch]:
        """The batches from where the run stands to its last."""
        run, state = self._run, self._run.state
        while not state.is_over():
            if not state.goes_on():
                run.saver.mark_saved(None)  # what is saved of this step does not know why there is no further cycle
                return
            epoch, index = divmod(state.step, state.steps_per_epoch)
            run.unfreezing.reach(epoch)
            run.modes.train()
            batches = run.loader.batches(epoch, index)
            for batch in batches if run.before_update is None else _each_told(batches, run.before_update):
                if self._is_in_train_mode and not run.model.training:
                    self._is_in_train_mode = False
                    say_in_eval()
                state.is_torn = True  # until the update is made and counted
                yield batch
                if state.step >= state.stop or state.patience_is_over:
                    break

    def due(self) -> Sequence[Stepper]:
        """The steppers that have a turn in this update."""
        steppers = self._run.steppers
        return steppers if len(steppers) == 1 else [one for one in steppers if one.is_due(self._run.state.step)]

    def finish_update(self, batch: Batch, results: Mapping[str, StepResult]) -> Update:
        """Count the update, log it, evaluate and save where that is due: at every yield the run is whole."""
        run, state = self._run, self._run.state
        if len(run.steppers) == 1:
            update = run.leader.count(batch, results[run.leader.name])
            is_skipped = update.skipped
        else:
            updates = {one.name: one.count(batch, results[one.name]) for one in self.due()}
            update = updates[run.leader.name]._replace(by_objective=updates)
            is_skipped = all(one.skipped for one in updates.values())
        state.step += 1
        if run.has_averages:
            run.averages.update(state.step, is_skipped=is_skipped)
        left = state.steps_per_epoch - batch.index - 1
        epoch_ends, evaluation_due = left == 0, state.is_evaluation_due()
        if run.logbook.updated(update, line_due=epoch_ends or evaluation_due or state.step == state.stop, left=left):
            run.settle()
        if epoch_ends:
            for stepper in run.steppers:
                stepper.drive.after_epoch()
            if run.folder is not None and batch.epoch == 0:
                self._look_at_attributes()
        is_kept = evaluation_due and self._evaluate()
        if epoch_ends and not evaluation_due:
            run.logbook.epoch_ended()
        if run.saver.due(state.step) or is_kept or (state.cycles is not None and state.step == state.stop):
            run.settle()
            run.saver.save(capture(run))
        state.is_torn = False
        return update

    def _look_at_attributes(self) -> None:
        """Before the second epoch: say what a checkpoint cannot keep."""
        attributes, world = self._run.model_state.attributes, self._run.world
        attributes.look()
        attributes.say_unkept()
        if world.size > 1:
            attributes.say_apart(world)

    def _evaluate(self) -> bool:
        """True where its checkpoint is to be kept: it is the best so far, or among the best."""
        run, state, monitor = self._run, self._run.state, self._run.monitor
        run.settle()  # a model that is spoilt already must be neither judged nor saved
        with state.evaluating(is_saved=False):
            evaluation = run.evaluate()
        is_best = monitor is not None and monitor.see(evaluation)
        if not self._is_nan_said:
            self._is_nan_said = say_nan(run, evaluation)
        if is_best:
            state.best_step = state.step
            state.best_weights = run.model_state.copy() if run.folder is None else None
        run.logbook.evaluated(evaluation, best=is_best)
        if monitor is not None:
            for stepper in run.steppers:
                stepper.drive.after_evaluation(evaluation[monitor.name])
            state.end_cycle(evaluation[monitor.name])
        return is_best or state.step in run.best_steps()

    # --- Before the first update and after the last

    def _resume(self) -> Found:
        """Enter the folder and go on from what is in it, on all processes."""
        run, world = self._run, self._run.world
        run.processes.compare(lambda: run.describe(content=False))
        found = world.run_on_rank0(lambda: run.entry.enter(run))
        try:
            checkpoint = self._own_checkpoint(found)
            if checkpoint is not None:
                restore(run, checkpoint)
                run.saver.mark_saved(checkpoint.step if found.is_saved else None)
                if run.state.is_over():
                    run.entry.leave_untouched()
            if run.processes.are_sharded:
                self._prepare_saving(found)
            else:
                world.run_on_rank0(lambda: self._prepare_saving(found))
        except BaseException:
            run.entry.abandon(found)
            raise
        return found

    def _own_checkpoint(self, found: Found) -> Checkpoint | None:
        """What this process resumes from: all of the checkpoint, or its own share of it."""
        run = self._run
        read_here, run.entry.checkpoint = run.entry.checkpoint, None
        if run.is_replay:
            return read_here
        if found.step is None or run.folder is None:
            return None
        if not run.processes.are_sharded:
            return run.world.broadcast_object(read_here)
        path = path_of(run.folder / CHECKPOINTS, found.step)
        return read_here or read(path, held=run.processes.shares(run.model), is_verified=True)

    def _prepare_saving(self, found: Found) -> None:
        run = self._run
        if run.folder is None:
            return
        if found.step is None and not found.is_begun:
            run.logbook.restore(None)
            run.saver.check(capture(run))  # what cannot be kept is said now, not at the first checkpoint
        run.saver.open(run.folder / CHECKPOINTS)
        if found.has_changed and not run.state.is_over():
            run.saver.save_now(capture(run))

    def _require_whole(self) -> None:
        """A run that was torn out of an update goes on from its last checkpoint, or not at all."""
        run = self._run
        if not run.state.is_torn and not run.saver.is_behind:
            return
        if run.processes.are_several or not checkpoints_in(run.folder):
            raise UpdateError(
                "this Trainer was stopped in the middle of an update, and there is no checkpoint to go on from; make a new one."
            )
        run.entry.forget()
        run.state.is_torn = False

    def _begin_showing(self, found: Found) -> None:
        """Nothing is shown of a run that is over already, but that it is."""
        run, state = self._run, self._run.state
        if state.is_over():
            run.logbook.continue_clock()  # the test data may be evaluated once more
            run.say_finished(has_changed=found.has_changed)
            return
        state.weights_step = None
        run.loggers.start(run, is_changed=found.has_changed)
        run.logbook.open(run.brief_plan(), state.step)
        if state.cycles is not None and state.step:
            run.logbook.go_on_to(state.stop)
        for notice in found.notices:
            run.notices.say(notice)
        largest = run.micro_batches.plan.largest
        if found.notices and largest is not None:
            run.notices.say(f"micro-batches of more than {largest} did not fit in memory: split as before")

    def _finish(self) -> str:
        """The run has come to its end."""
        run, state = self._run, self._run.state
        run.settle()
        run.saver.save_last(state.step, lambda: capture(run))
        run.processes.take_from_rank0(run.model_state.buffers())
        if run.options.restore_best and state.best_step is not None:
            run.load("best")
        if run.feed.test:
            with state.evaluating(is_saved=True):
                run.logbook.tested(run.evaluate("test", run.weights()))
        state.is_finished = True
        return "stopped" if state.patience_is_over else "finished"

    def _close(self, *, after: BaseException | None) -> None:
        """Let go of everything; what goes wrong with it is a note to the error that ended the run, where one did."""
        try:
            self._let_go()
        except InstepError as error:
            if after is None:
                raise
            after.add_note(f"Also: {error}")

    def _let_go(self) -> None:
        run, state = self._run, self._run.state
        state.is_running = False
        run.train_mode.remember()
        for loader in (run.loader, *run.valid_loaders.values()):
            loader.close()  # worker processes are started again when a batch is asked for
        run.modes.eval()
        with ExitStack() as last:
            last.callback(run.entry.leave, self._ended_as, state.step)
            last.callback(run.saver.close)
            run.logbook.close(self._ended_as, state.why_stopped if self._ended_as == "stopped" else "")


def _each_told(batches: Iterable[Batch], tell: Callable[[Batch], object]) -> Iterator[Batch]:
    for batch in batches:
        tell(batch)
        yield batch
