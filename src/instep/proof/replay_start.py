"""Where a replay begins: the run is built again, compared with what was recorded, and put back to one of its checkpoints.

Nothing is written and nothing is locked, so that a run that is still training can be replayed too.
"""

import inspect
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from instep import keys
from instep.checkpoint import Checkpoint, read, steps
from instep.checkpoint.checkpoint_folder import path_of
from instep.checkpoint.interchange import load_model
from instep.data.loading.loader import Batch
from instep.errors import ChangedRun, CheckpointError, DescriptionError
from instep.records import Update
from instep.run.changes import ignores_length, require_same
from instep.run.history import HistoryFile
from instep.run.run import Run
from instep.run.run_files import CHECKPOINTS, RecordedRun, read_run, section
from instep.text import plural


class HasRun(Protocol):
    """A Trainer."""

    @property
    def run(self) -> Run: ...
    def updates(self) -> Generator[Update]: ...


Build = Callable[..., HasRun]


@dataclass(frozen=True)
class Start:
    """Where a replay begins, and what to know about it."""

    step: int  # update cycles that were made before it
    checkpoint: int | None  # the step of the checkpoint; None: the start of the run
    reasons: tuple[str, ...] = ()  # why it does not begin later
    notices: tuple[str, ...] = ()  # what is not as it was, and does not decide the result

    def __str__(self) -> str:
        return "the start of the run" if self.checkpoint is None else f"the checkpoint of step {self.checkpoint:,}"


def read_whole(path: str | Path) -> RecordedRun:
    """A run with every row of its history, each parsed when it is asked for."""
    return read_run(Path(path), read=HistoryFile.read)


def build_run(build: Build | HasRun, recorded: RecordedRun) -> HasRun:
    """The Trainer that `build` makes, or is; with the hyper-parameters and under the key that `instep train` called it with."""
    known = dict(section(recorded.description, "hyper_parameters"))
    if not callable(build):
        made: Any = build
    else:
        parameters = inspect.signature(build).parameters
        given = {name: value for name, value in known.items() if name in parameters}
        with keys.fork_rng():
            if section(recorded.description, "script"):
                keys.seed_all(keys.for_build(keys.check_seed(known.get("seed") or 0)))
            made = build(**given)
    if not isinstance(getattr(made, "run", None), Run):
        raise DescriptionError(f"build gave a {type(made).__name__}; pass a function that returns the Trainer of the run.")
    trainer: HasRun = made
    if trainer.run.state.step or trainer.run.state.is_running:
        raise DescriptionError("this Trainer has trained already; pass a function that makes a new one.")
    trainer.run.hyper_parameters = trainer.run.hyper_parameters or known
    return trainer


def begin(
    run: Run,
    recorded: RecordedRun,
    step: int,
    *,
    before_update: Callable[[Batch], object] | None = None,
    newest: int | None = None,
) -> Start:
    """Make a run that was built again ready to be replayed to a step, from its newest checkpoint at or before it.

    `before_update` is called with each batch; `newest` is the step of the newest checkpoint to use.
    """
    if run.processes.are_several:
        raise DescriptionError("a run is replayed in one process; call it in a script that is started without torchrun.")
    notices = _require_same(run, recorded, step)
    _require_step(run, recorded, step)
    checkpoint, reasons = find_checkpoint(recorded.path, step if newest is None else min(step, newest))
    if checkpoint is None and run.options.init is not None:
        load_model(run.model, run.options.init)  # the Trainer left it out where its folder has checkpoints
    processes = recorded.description.get("processes")
    run.set_progress(False)
    run.begin_replay(checkpoint, processes=processes if isinstance(processes, int) else 1, before_update=before_update)
    at = None if checkpoint is None else checkpoint.step
    return Start(at or 0, at, tuple(reasons), tuple(notices))


def find_checkpoint(path: Path, step: int) -> tuple[Checkpoint | None, list[str]]:
    """The newest whole checkpoint at or before a step, and in words why there is none, or no newer one."""
    folder, reasons = path / CHECKPOINTS, list[str]()
    there = steps(folder)
    for one in reversed([one for one in there if one <= step]):
        try:
            return read(path_of(folder, one)), reasons
        except CheckpointError as error:  # or a run that is training has deleted it by now
            reasons.append(f"{str(error).rstrip('.')}, so an earlier one is used.")
    later = f" (it has {plural(len(there), 'checkpoint')}, the oldest of step {there[0]:,})" if there and there[0] > step else ""
    return None, [*reasons, f"{path} has no checkpoint at or before step {step:,}{later}, so the replay begins at the start."]


def _require_same(run: Run, recorded: RecordedRun, step: int) -> list[str]:
    """What differs and does not decide the result; raises with the list of what does."""
    before = recorded.description
    if not before:
        raise DescriptionError(f"{recorded.path} cannot be replayed: {'; '.join(recorded.problems)}.")
    if section(before, "cycles") or recorded.history.cycles:
        raise DescriptionError(f"{recorded.path} was trained in cycles by fit_cycles(), which cannot be replayed.")
    found = before.get("found_lr")
    if isinstance(found, Mapping):  # what `instep train --find-lr` trained with
        run.set_lr(float(found["lr"]))
    now = run.describe()
    longer = ignores_length(run.options.schedule, before.get("total_steps", 0), now["total_steps"])
    try:
        compared = require_same(before, now, allowed=(), folder=recorded.path, longer_is_fine=longer, done=step)
    except ChangedRun as error:
        raise ChangedRun(
            f"{error.changes}\nA replay makes the updates of the run that was trained, so put this back as it was.",
            changes=error.changes,
            names=error.names,
        ) from None
    machine = before.get("machine"), now.get("machine")
    notices = [] if machine[0] in (None, machine[1]) else [f"machine was {machine[0]} before, is {machine[1]} now"]
    return [*compared.notices, *notices]


def _require_step(run: Run, recorded: RecordedRun, step: int) -> None:
    total = run.state.total_steps
    if step >= total:
        raise DescriptionError(f"{recorded.path} has {plural(total, 'update')}, so its last step is {total - 1:,}, not {step:,}.")
