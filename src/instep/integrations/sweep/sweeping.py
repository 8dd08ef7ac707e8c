"""sweep(): many runs of one `build`, each in a folder of its own, with parameters that Optuna chooses."""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from instep import keys
from instep.checkpoint.durable import make_folder
from instep.errors import DescriptionError, FolderError, InstepError, Interrupted, die_if_uncaught
from instep.integrations.optuna import Study, pruner_of, sampler_of
from instep.integrations.sweep.jobs import train_here, train_in_processes
from instep.integrations.sweep.record import Ending, Mode, TrialRecord
from instep.integrations.sweep.result import SweepResult, result_of, shown
from instep.integrations.sweep.space import Space, as_plain, read_space
from instep.integrations.sweep.trial import FOLDER, FunctionBuild, MakeTrainer, Task, evaluations_of, name_of
from instep.loop.batch_plan import require_whole
from instep.loop.monitor import monitor_for
from instep.loop.torch_losses import known
from instep.run.lock import Lock
from instep.run.run import Run
from instep.run.run_files import find_checkpoints, is_run, read_run
from instep.run.setting import as_setting
from instep.text import number

FAILED_AT_FIRST = 3  # trials that fail before any other ends: then all of them would


def sweep(
    build: Callable[..., Any],
    space: Mapping[str, Any],
    *,
    trials: int = 20,
    fixed: Mapping[str, Any] | None = None,
    metric: str | None = None,
    metric_mode: Literal["auto", "min", "max"] = "auto",
    pruner: Any = "none",
    sampler: Any = "tpe",
    jobs: int = 1,
    folder: str | Path | None = None,
    seed: int = 0,
    progress: bool = True,
) -> SweepResult:
    """Train `build(**parameters)` many times, with parameters that Optuna chooses, and see which are the best.

        def build(lr: float = 1e-3, width: int = 16) -> Trainer: ...

        result = sweep(build, {"lr": "log:1e-4..1e-1", "width": [8, 16, 32]}, trials=40, pruner="hyperband")
        result.best.parameters, result.best.folder

    Each trial is a run in a folder of its own, `folder/trial-0000`; `folder` is `runs/<file>-sweep` where none is given. The
    same call goes on with a sweep that was stopped or killed; with more `trials` it is extended.

    space: what to try of each parameter: "log:1e-4..1e-1", "8..64", "8..64..8", "8,16,32" or a list. `fixed` are values for
        other parameters of build.
    metric: the number of an evaluation to go by, at its best over a run; None: what the Trainer monitors. `metric_mode` is
        "min", "max", or "auto", by the name.
    pruner: "none", "median", "halving", "hyperband", or one of Optuna's. A pruned trial goes on where it stopped, exactly, when
        the pruner no longer stops it in the light of later trials.
    sampler: "tpe", "random", or a function that makes one of Optuna's from a seed. `seed` is the sampler's: with one job, the
        sweep can be had again.
    jobs: trials at a time, each in a process.

    >>> import tempfile, torch
    >>> from instep import Trainer
    >>> def build(lr: float = 0.1) -> Trainer:
    ...     model, x = torch.nn.Linear(3, 1), torch.ones(20, 3)
    ...     optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    ...     loss = torch.nn.functional.mse_loss
    ...     return Trainer(model, loss=loss, optimizer=optimizer, train=(x, x[:, :1]), valid=0.2, epochs=1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     result = sweep(build, {"lr": [0.01, 0.1]}, trials=2, folder=folder, progress=False)
    >>> len(result.rows), sorted(result.best.parameters)
    (2, ['lr'])
    """
    read = read_space(build, space, fixed or {}, where=f"{getattr(build, '__name__', 'build')}()")
    given = SweepOptions(trials, metric, metric_mode, pruner, sampler, jobs, seed)
    path = Path("runs") / f"{name_of(build)}-sweep" if folder is None else Path(folder)
    return run_sweep(FunctionBuild(build), read, path, given, show=_print_line if progress else None)


class SweepOptions:
    """What a sweep was asked for; what cannot be is an error at once."""

    def __init__(
        self,
        trials: int = 20,
        metric: str | None = None,
        metric_mode: Literal["auto", "min", "max"] = "auto",
        pruner: Any = "none",
        sampler: Any = "tpe",
        jobs: int = 1,
        seed: int = 0,
    ) -> None:
        require_whole("trials", trials, least=1)
        require_whole("jobs", jobs, least=1)
        self.trials, self.jobs, self.seed = trials, jobs, keys.check_seed(seed)
        self.metric, self.metric_mode = metric, metric_mode
        self.pruner, self.sampler = pruner, sampler


Show = Callable[[str], None]


def run_sweep(make: MakeTrainer, space: Space, folder: Path, asked: SweepOptions, *, show: Show | None) -> SweepResult:
    """Train what is left of a sweep in its folder. Raises Interrupted where it was stopped; the same call goes on then."""
    sampler = sampler_of(asked.sampler)
    pruner_of(asked.pruner, 1)  # is it known at all?
    with keys.fork_rng():
        run = make(space.values_of({name: one.first for name, one in space.parameters.items()})).run
    metric, mode = metric_of(run, asked.metric, asked.metric_mode)
    with _held(folder):
        study = Study(
            folder,
            space.parameters,
            mode=mode,
            pruner=pruner_of(asked.pruner, evaluations_of(run)),
            sampler=sampler,
            seed=asked.seed,
            settings=_settings(space, metric, mode, asked),
        )
        try:
            return Sweeping(study, space, folder, metric, mode, asked.trials, show).train(make, asked.jobs)
        finally:
            study.close()


def metric_of(run: Run, metric: str | None, mode: Literal["auto", "min", "max"]) -> tuple[str, Mode]:
    """The number that a sweep goes by, and whether less or more of it is better: as `monitor` and `monitor_mode` of a Trainer."""
    if metric is None and mode == "auto" and run.monitor is not None:
        return run.monitor.name, run.monitor.mode
    has_evaluations = run.plan.evaluation_step(run.options.evaluate_every) is not None
    loss = run.options.loss
    try:
        found = monitor_for(
            metric if metric is not None or run.monitor is None else run.monitor.name,
            mode,
            run.evaluator.metrics,
            patience=None,
            restore_best=False,
            sets=list(run.valid_loaders) if has_evaluations else [],
            parts=run.evaluator.parts,
            more_parts=loss is None or known(loss) is None,
        )
    except DescriptionError as error:
        raise DescriptionError(str(error).replace("monitor_mode=", "metric_mode=").replace("monitor=", "metric=")) from None
    if found is None:
        what = "several losses" if has_evaluations and run.valid_loaders else "no evaluations"
        raise DescriptionError(f"a sweep goes by a number of the evaluations, and this run has {what}; pass valid= or metric=.")
    return found.name, found.mode


class Sweeping:
    """A sweep while it runs: which trial is next, and what becomes of each."""

    def __init__(self, study: Study, space: Space, folder: Path, metric: str, mode: Mode, trials: int, show: Show | None) -> None:
        self._study, self._space, self._folder = study, space, folder
        self._metric, self._mode, self._trials = metric, mode, trials
        self._show = show
        self._busy: set[int] = set()

    def train(self, make: MakeTrainer, jobs: int) -> SweepResult:
        if jobs == 1:
            stopped_by = train_here(make, self._metric, self.next_task, self._study.report, self.finish)
        else:
            given = (make, self._metric, self.next_task, self._study.report, self.finish)
            stopped_by = train_in_processes(*given, jobs=min(jobs, self._trials))
        result = result_of(self._study, self._space, self._folder, self._metric, self._mode)
        result.save_report()
        if stopped_by is not None:
            ended = sum(row.state != "running" for row in result.rows)
            raise die_if_uncaught(SweepInterrupted(stopped_by, ended, self._folder))
        if all(row.state == "failed" for row in result.rows):
            raise InstepError(f"all {len(result.rows)} trials failed, the last one: {result.rows[-1].error}")
        return result

    def next_task(self) -> Task | None:
        """The trial to train next: one that was killed, then one to promote, then a new one; None where there is none now."""
        records = self._study.records()
        for one in records:
            if one.state == "running" and one.trial not in self._busy:
                if not one.is_over and self._study.stops(one.trial) and self._is_saved(one):  # killed before that was stored
                    self.finish(one.trial, Ending("pruned"))
                    return self.next_task()
                self._say(one, f"goes on after {_evaluations(one)}" if one.values else "begins again")
                return self._task(one)
        promoted = self._study.promotable()
        if promoted is not None:
            self._say(promoted, f"promoted after {_evaluations(promoted)}")
            return self._task(self._study.promote(promoted.trial))
        return self._task(self._study.ask()) if len(records) < self._trials else None

    def finish(self, trial: int, ending: Ending) -> None:
        self._busy.discard(trial)
        if ending.state == "running":  # interrupted: it stays as it is
            return
        record = self._study.finish(trial, ending)
        self._say(record, "")
        self._require_some_success(record)

    def _task(self, record: TrialRecord) -> Task:
        self._busy.add(record.trial)
        return Task(record.trial, self._space.values_of(record.stored), self._folder / FOLDER.format(record.trial))

    def _is_saved(self, record: TrialRecord) -> bool:
        """Whether the run has a checkpoint of its last evaluation; one that was killed before goes on until it has."""
        folder = self._folder / FOLDER.format(record.trial)
        evaluations = read_run(folder).history.evaluations if is_run(folder) else []
        newest = max((entry.step for entry in find_checkpoints(folder)), default=0)
        return len(evaluations) >= record.last and evaluations[record.last - 1]["step"] <= newest

    def _require_some_success(self, last: TrialRecord) -> None:
        ended = [one for one in self._study.records() if one.state != "running"]
        if len(ended) == FAILED_AT_FIRST < self._trials and all(one.state == "failed" for one in ended):
            raise InstepError(f"the first {FAILED_AT_FIRST} trials failed, so the sweep stops; the last one: {last.error}")

    def _say(self, record: TrialRecord, what: str) -> None:
        if self._show is not None:
            self._show(_line(record, self._metric, self._mode, what))


class SweepInterrupted(Interrupted):
    """A sweep was stopped from outside; its folder has everything to go on from."""

    def __init__(self, signal: int, ended: int, folder: Path) -> None:
        super().__init__(signal, ended, folder)
        said = self.args[0].partition(" after ")[0]
        self.args = (f"{said} after {ended} trial{'' if ended == 1 else 's'}; {folder} has all to go on from: start it again.",)


def _settings(space: Space, metric: str, mode: Mode, asked: SweepOptions) -> dict[str, Any]:
    """What decides a sweep; one that goes on has the same."""
    return {
        "space": {name: str(one) for name, one in space.parameters.items()},
        "values": {name: as_setting(as_plain(value)) for name, value in space.fixed.items()},
        "metric": metric,
        "metric_mode": mode,
        "pruner": _name(asked.pruner or "none"),
        "sampler": _name(asked.sampler),
        "seed": asked.seed,
    }


def _name(asked: Any) -> str:
    return asked if isinstance(asked, str) else getattr(asked, "__name__", type(asked).__name__)


@contextmanager
def _held(folder: Path) -> Iterator[None]:
    """One sweep at a time in a folder."""
    try:
        make_folder(folder)
    except OSError as error:
        raise FolderError(f"{folder} cannot be made: {error.strerror}.") from None
    lock = Lock(folder)
    lock.take()
    try:
        yield
    finally:
        lock.release()


def _line(record: TrialRecord, metric: str, mode: Mode, what: str) -> str:
    """A trial in a line: `trial 3  lr=0.0123 width=16  valid/loss 0.4321  pruned after 2 evaluations`."""
    chosen = " ".join(f"{name}={shown(value)}" for name, value in record.stored.items())
    best = record.best(mode)
    value = "" if best is None else f"{metric} {number(best)}"
    said = what or (f"pruned after {_evaluations(record)}" if record.state == "pruned" else record.state)
    said += f": {record.error}" if record.error else ""
    return "  ".join(part for part in (f"trial {record.trial}", chosen, value, said) if part)


def _evaluations(record: TrialRecord) -> str:
    return f"{record.last} evaluation{'' if record.last == 1 else 's'}"


def _print_line(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
