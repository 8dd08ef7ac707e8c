"""A recorded run, built again: its script, its hyper-parameters, the weights of a checkpoint. For commands that use it.

Everything that can be missing is looked for before anything is built: the checkpoint, the script, its parameters.
"""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import tyro
from torch import Tensor

from instep.checkpoint import locate, steps
from instep.cli import script
from instep.cli.border import YELLOW, WrongUse, say
from instep.cli.options import parse_with_build
from instep.cli.train import TrainOptions
from instep.data.structure import columns
from instep.errors import CheckpointError
from instep.optim.which_weights import Weights as Kind
from instep.run.changes import data_differences
from instep.run.run_files import CHECKPOINTS, RecordedRun, read_ends, read_run, section
from instep.run.setting import as_setting
from instep.trainer import Trainer

# Options that all these commands have.
Run = Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
Which = Annotated[
    str | None, tyro.conf.arg(metavar="best|latest|STEP", help_behavior_hint="(default: best, or latest where there is no best)")
]
Weights = Annotated[
    Kind | None,
    tyro.conf.arg(metavar="model|ema|swa", help_behavior_hint="(default: those that monitor= names, else the model's own)"),
]
File = Annotated[str | None, tyro.conf.arg(metavar="FILE.py[:build]", help_behavior_hint="(default: the one that was trained)")]


@dataclass(frozen=True)
class RebuiltRun:
    """A Trainer with the weights of a checkpoint of its run."""

    run: RecordedRun
    trainer: Trainer
    step: int  # of the checkpoint
    weights: Kind = "model"  # what the model has: its own, or an average of them

    def __str__(self) -> str:
        return f"{self.run.path} at step {self.step:,}{', averaged weights' if self.weights != 'model' else ''}"


def rebuild(path: Path, which: str | None, file: str | None, weights: Kind | None) -> RebuiltRun:
    """Build what `instep train` built, and load the weights."""
    run = read_run(path, read=read_ends)
    step = find_step(path, which)
    trainer = _build(run, file)
    trainer.run.set_folder(path)
    trainer.run.set_progress(False)
    trainer.load(step, weights=weights)
    _note_other_data(run, trainer)
    best = run.history.best
    if which in (None, "best") and best is not None and best["step"] not in steps(path / CHECKPOINTS):
        say(
            f"the best evaluation was at step {best['step']:,}, which has no checkpoint; step {step:,} is used",
            YELLOW,
            who="note",
        )
    return RebuiltRun(run, trainer, step, trainer.run.weights(weights))


def build_again(path: Path, file: str | None) -> Trainer:
    """The Trainer that `instep train` built, as it was before its first update."""
    return _build(read_run(path, read=read_ends), file)


def _build(run: RecordedRun, file: str | None) -> Trainer:
    found = _script(run, file)
    return script.build_trainer(found, _hyper_parameters(run, found))


def find_step(path: Path, which: str | None) -> int:
    """The step of a checkpoint that is there."""
    there = steps(path / CHECKPOINTS)
    if not there:
        raise WrongUse(f"{path} has no checkpoints, so there are no weights to use.")
    if which not in (None, "best", "latest") and not which.isdecimal():
        raise WrongUse(f"--which {which} is not known; use best, latest, or a step: {', '.join(map(str, there))}.")
    asked: Any = int(which) if which is not None and which.isdecimal() else which or "best"
    try:
        return int(locate(path / CHECKPOINTS, asked).name.rpartition("-")[2])
    except CheckpointError:
        if which is None:
            return there[-1]
        steps_there = ", ".join(map(str, there))
        raise WrongUse(f"{path} has no checkpoint {which}; use latest, or a step that is there: {steps_there}.") from None


def example_batch(trainer: Trainer, samples: int) -> Any:
    """The first samples of the first batch of the training data, on the trainer's device."""
    batch = trainer.run.example()
    layout = trainer.run.feed.layout
    return layout.piece(batch, 0, min(samples, layout.size(batch) or samples))


def example_batches(trainer: Trainer, samples: int, count: int = 8) -> list[Any]:
    """Some batches of so many samples each, the longest first: padded ones differ in length."""
    batches = [example_batch(trainer, samples)]
    if not trainer.run.feed.has_own_batches:
        batches += [batch for batch in trainer.run.examples(count, samples) if (trainer.run.feed.layout.size(batch) or 0) > 1]
    return sorted(batches, key=lambda batch: -sum(part.numel() for part in columns(batch) if isinstance(part, Tensor)))


def _script(run: RecordedRun, file: str | None) -> script.Script:
    if file is not None:
        return script.load(file)
    recorded = section(run.description, "script")
    if not recorded:
        raise WrongUse(
            f"{run.path} does not say what built it, as runs of `instep train` do; name a file whose build() makes the same "
            "Trainer: --file FILE.py"
        )
    if recorded.get("file") is None:
        return script.recipe()
    path = Path(str(recorded["file"]))
    if not path.is_absolute() or not path.is_file():  # a run from elsewhere must not name code that came along with it
        raise WrongUse(f"{run.path} was built by {path}, which is not there any more; say where it is: --file FILE.py")
    return script.load(f"{path}:{recorded.get('function', 'build')}")


def _hyper_parameters(run: RecordedRun, found: script.Script) -> dict[str, Any]:
    """The values that build was called with: from the command line, which gives their types, held against the record."""
    typed = section(run.description, "script").get("options")
    options = [str(option) for option in typed] if isinstance(typed, list) else []
    try:
        given = parse_with_build(TrainOptions, found.build, options, prog="instep train", where=str(found)).hyper_parameters
    except WrongUse as error:
        raise WrongUse(f"{run.path} was trained with {shlex.join(options) or 'no options'}, now {found} says: {error}") from None
    recorded = section(run.description, "hyper_parameters")
    gone = [name for name in recorded if name not in given]
    if gone:
        raise WrongUse(f"{run.path} was trained with {gone[0]}={recorded[gone[0]]!r}, a parameter that {found} has no more.")
    return {name: _as_recorded(name, value, recorded, found) for name, value in given.items()}


def _as_recorded(name: str, now: Any, recorded: Mapping[str, Any], found: script.Script) -> Any:
    """The value of a parameter as it was: a default may have been changed since."""
    if name not in recorded or as_setting(now) == recorded[name]:
        return now
    before = recorded[name]
    if isinstance(now, Path) and isinstance(before, str):
        return Path(before)
    if isinstance(now, Enum) and before in type(now).__members__:
        return type(now)[before]
    if before is None or isinstance(before, bool | int | float | str):
        return before
    if isinstance(before, list) and all(isinstance(one, bool | int | float | str) for one in before):
        return type(now)(before) if isinstance(now, list | tuple | set | frozenset) else before
    raise WrongUse(f"{found} has another default for {name} than the run was trained with, {before!r}; put that back.")


def _note_other_data(run: RecordedRun, trainer: Trainer) -> None:
    before, now = section(run.description, "data"), trainer.run.describe()["data"]
    if before:
        for one in data_differences(before, now):
            say(f"this is not the data of the run (before -> now): {one.text}", YELLOW, who="note")
