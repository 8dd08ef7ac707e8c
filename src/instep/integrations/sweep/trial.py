"""A trial: a run in its folder, trained to its end or until it is to stop. It knows nothing of Optuna."""

import contextlib
import inspect
import math
import traceback
import warnings
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from instep import keys
from instep.errors import ChangedRun, DescriptionError, NonFiniteGradient, NonFiniteLoss, Notice, OutOfMemory, is_user_file
from instep.integrations.sweep.record import Ending
from instep.records import Update
from instep.run.history import History
from instep.run.run import Run

FOLDER = "trial-{:04}"

# the number of an evaluation, its value, whether the run is over with it; the answer is whether to stop there
Report = Callable[[int, float, bool], bool]


class NoMetric(DescriptionError):
    """Evaluations do not have the number that the sweep goes by."""


class SweptTrainer(Protocol):
    """What a trial needs of a Trainer."""

    run: Run

    @property
    def history(self) -> History: ...

    def updates(self) -> Generator[Update]: ...


class MakeTrainer(Protocol):
    """Builds the Trainer of a trial from the values of its parameters; processes get it pickled."""

    def __call__(self, values: Mapping[str, Any]) -> SweptTrainer: ...


@dataclass(frozen=True)
class Task:
    """A trial to train, or to go on with."""

    trial: int
    values: Mapping[str, Any]
    folder: Path


class FunctionBuild:
    """A `build` function of the user's, called under a key of the seed, as `instep train` does."""

    def __init__(self, build: Callable[..., Any]) -> None:
        self.build = build

    def __call__(self, values: Mapping[str, Any]) -> SweptTrainer:
        keys.seed_all(keys.for_build(keys.check_seed(values.get("seed") or 0)))
        trainer = self.build(**values)
        if not isinstance(getattr(trainer, "run", None), Run):
            raise DescriptionError(
                f"{self.build.__name__}() returned a {type(trainer).__name__}; it has to return an instep.Trainer."
            )
        trainer.run.hyper_parameters = dict(values)
        return trainer  # type: ignore[no-any-return]


def train_trial(make: MakeTrainer, task: Task, metric: str, report: Report, is_stopped: Callable[[], bool]) -> Ending:
    """Train to the end, or until `report` says that it is enough, or (the run goes on another time) until `is_stopped`."""
    try:
        with keys.fork_rng(), _quiet_notices(task.trial):
            return _train(make(task.values), task, metric, report, is_stopped)
    except (NonFiniteLoss, NonFiniteGradient) as error:
        return Ending("diverged", _first_line(error))
    except (KeyboardInterrupt, ChangedRun, NoMetric):  # not of this trial alone
        raise
    except Exception as error:
        return Ending("failed", explain(error))


def _train(trainer: SweptTrainer, task: Task, metric: str, report: Report, is_stopped: Callable[[], bool]) -> Ending:
    run = trainer.run
    run.set_folder(task.folder)
    run.set_progress(False)
    said = 0
    with contextlib.closing(trainer.updates()) as updates:
        for _ in updates:
            while said < len(trainer.history.evaluations):
                said += 1
                is_newest = said == len(trainer.history.evaluations)
                is_last = is_newest and run.state.is_over()
                if report(said, value_of(trainer.history, said, metric), is_last) and is_newest:
                    return Ending("finished" if is_last else "pruned")
            if is_stopped():
                return Ending("running")
    count = len(trainer.history.evaluations)
    for place in range(said + 1, count + 1):  # of a run that was over already
        report(place, value_of(trainer.history, place, metric), place == count)
    return Ending("finished")


def value_of(history: History, place: int, metric: str) -> float:
    """The metric in the evaluation of this number, from 1."""
    row = history.evaluations[place - 1]
    if metric not in row:
        known = ", ".join(name for name, value in row.items() if "/" in name and isinstance(value, int | float))
        raise NoMetric(f"metric={metric!r} is no number of an evaluation; there are {known}.")
    return float(row[metric])


def evaluations_of(run: Run) -> int:
    """How many evaluations a whole run has."""
    every = run.plan.evaluation_step(run.options.evaluate_every)
    return 0 if every is None or not run.valid_loaders else math.ceil(run.state.total_steps / every)


def explain(error: BaseException) -> str:
    """What went wrong, with the line of the user's own code where there is one."""
    error = error.__cause__ or error
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if is_user_file(frame.filename)]
    where = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    kind = "" if isinstance(error, OutOfMemory) else f"{type(error).__name__}: "
    return f"{kind}{_first_line(error)}{where}"


def name_of(build: Callable[..., Any]) -> str:
    """What runs of this function are called: after its file, or after itself where it has none."""
    file = Path(inspect.unwrap(build).__code__.co_filename) if inspect.isfunction(inspect.unwrap(build)) else Path()
    name = getattr(build, "__name__", "sweep")
    if file.suffix != ".py":
        return name
    return file.stem if name == "build" else f"{file.stem}-{name}"


@contextlib.contextmanager
def _quiet_notices(trial: int) -> Generator[None]:
    """What is to be said about all trials alike is said with the first."""
    with warnings.catch_warnings():
        if trial:
            warnings.simplefilter("ignore", Notice)
        yield


def _first_line(error: BaseException) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
