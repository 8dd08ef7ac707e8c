"""Optuna: it stores the trials of a sweep, chooses their parameters and says which to stop. `integrations.sweep` trains them.

Two things are done here that Optuna leaves to others. Sampler and pruner get a seed and a view that depend on the trial alone, so
that a sweep that was killed goes on as if it had not been. And a trial that was pruned is looked at again when others have come:
Optuna cannot resume one ("does not support suspending or resuming ongoing trials"), so it promotes the first ones on trust; a run
folder can be resumed, so any trial is promoted once the pruner, asked again, would let it go on.
"""

import contextlib
import importlib
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from instep import keys
from instep.errors import DescriptionError, InstepError
from instep.extras import install_command
from instep.integrations.sweep.record import Ending, Mode, State, TrialRecord
from instep.integrations.sweep.space import Parameter, Range

NAME = "sweep"  # of the study; Hyperband chooses the bracket of a trial by it
FILE = "optuna.db"
# attributes in the storage
SETTINGS, TRIAL, MARKS, LAST, ERROR, DIVERGED = "instep", "trial", "marks", "last", "error", "diverged"
FEWEST = 5  # finished trials, before one can say which parameters matter
PRUNERS = ("none", "median", "halving", "hyperband")
SAMPLERS = ("tpe", "random")

MakePruner = Callable[[], Any]
MakeSampler = Callable[[int], Any]


def need_optuna() -> Any:
    """The package; raises where it is not installed."""
    try:
        return importlib.import_module("optuna")
    except ModuleNotFoundError as error:
        if error.name != "optuna":
            raise
        raise InstepError(f"a sweep needs Optuna, which is not installed; type: {install_command('sweep')}") from None


def pruner_of(asked: Any, evaluations: int) -> MakePruner | None:
    """How to make the pruner that was asked for by name, for runs with so many evaluations; one of Optuna's is used as it is."""
    pruners = need_optuna().pruners
    if asked in (None, "none"):
        return None
    if isinstance(asked, pruners.BasePruner):
        return lambda: asked
    makers: dict[Any, MakePruner] = {
        "median": pruners.MedianPruner,
        "halving": lambda: pruners.SuccessiveHalvingPruner(min_resource=1, reduction_factor=3),
        "hyperband": lambda: pruners.HyperbandPruner(min_resource=1, max_resource=max(1, evaluations), reduction_factor=3),
    }
    if not isinstance(asked, str) or asked not in makers:
        raise DescriptionError(f"pruner={asked!r} is not known; use {', '.join(PRUNERS)}, or a pruner of Optuna's.")
    return makers[asked]


def sampler_of(asked: Any) -> MakeSampler:
    """How to make the sampler of a trial from a seed: by name, or by a function of yours that takes a seed."""
    samplers = need_optuna().samplers
    if callable(asked):
        return asked  # type: ignore[no-any-return]
    makers: dict[Any, MakeSampler] = {
        "tpe": lambda seed: samplers.TPESampler(seed=seed),
        "random": lambda seed: samplers.RandomSampler(seed=seed),
    }
    if not isinstance(asked, str) or asked not in makers:
        raise DescriptionError(
            f"sampler={asked!r} is not known; use {', '.join(SAMPLERS)}, or a function that makes one of Optuna's from a seed: "
            "lambda seed: optuna.samplers.CmaEsSampler(seed=seed)."
        )
    return makers[asked]


class Study:
    """The trials of one sweep, in a SQLite file. One process at a time uses it: the one that runs the sweep."""

    def __init__(
        self,
        folder: Path,
        parameters: Mapping[str, Parameter],
        *,
        mode: Mode,
        pruner: MakePruner | None,
        sampler: MakeSampler,
        seed: int,
        settings: Mapping[str, Any],
    ) -> None:
        self._optuna = need_optuna()
        self._mode, self._pruner, self._sampler, self._seed = mode, pruner, sampler, seed
        self._distributions = {name: self._distribution(one) for name, one in parameters.items()}
        with self._quietly():
            self._storage = self._optuna.storages.RDBStorage(f"sqlite:///{folder / FILE}")
            self._study = self._optuna.create_study(
                storage=self._storage,
                study_name=NAME,
                direction=f"{mode}imize",
                load_if_exists=True,
                pruner=self._optuna.pruners.NopPruner(),  # `stops` asks the real one
            )
        before = self._study.user_attrs.get(SETTINGS)
        if before is None:
            self._study.set_user_attr(SETTINGS, dict(settings))
        else:
            require_same(before, settings, folder)
        for trial in self._trials():  # killed while its parameters were drawn: it never was one
            if trial.state.name in ("RUNNING", "WAITING") and TRIAL not in trial.user_attrs:
                self._study.tell(trial.number, state=self._state("FAIL"))

    def close(self) -> None:
        """Let go of the file."""
        self._storage.remove_session()
        self._storage.engine.dispose()

    # --- What there is

    def records(self) -> list[TrialRecord]:
        """Every trial once, as it stands now, by its number."""
        return [self._record(trial) for _, trial in sorted(self._newest().items())]

    def record(self, trial: int) -> TrialRecord:
        return self._record(self._newest()[trial])

    def importances(self) -> dict[str, float]:
        """How much each parameter matters for a good value, as shares of 1; empty before there are enough finished trials."""
        finished = [one for one in self.records() if one.state == "finished"]
        if len(finished) < FEWEST or len({one.best(self._mode) for one in finished}) == 1:
            return {}
        with self._quietly(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = self._optuna.importance.get_param_importances(self._study)
        return {name: float(share) for name, share in found.items()}

    # --- What happens

    def ask(self) -> TrialRecord:
        """A new trial, with parameters that the sampler chose; they depend on the trials so far, the seed and its number."""
        number = len(self._newest())
        self._study.sampler = self._sampler(keys.for_sampler(self._seed, number) & 0xFFFFFFFF)
        with self._quietly():
            trial = self._study.ask(self._distributions)
            trial.set_user_attr(TRIAL, number)  # from here on it is one
        return self.record(number)

    def report(self, trial: int, evaluation: int, value: float, is_last: bool) -> bool:
        """Store the value of an evaluation; whether the trial is to be stopped there: after its last one it is over anyhow."""
        frozen = self._newest()[trial]
        if evaluation in frozen.intermediate_values:  # made again after a kill, and the same
            return False if evaluation < max(frozen.intermediate_values) else self.stops(trial)
        if is_last:
            self._open(frozen).set_user_attr(LAST, evaluation)  # first: a kill in between leaves a trial that goes on
        self._open(frozen).report(value, evaluation)
        return self.stops(trial)

    def stops(self, trial: int) -> bool:
        """Whether the pruner stops this trial at its last evaluation, seen with all others as they are now."""
        subject = self.record(trial)
        if self._pruner is None or not subject.values:
            return False
        stop, marks = self._judge(subject)
        if subject.state == "running" and marks != dict(subject.marks):
            self._open(self._newest()[trial]).set_user_attr(MARKS, {name: list(mark) for name, mark in marks.items()})
        return stop

    def promotable(self) -> TrialRecord | None:
        """The pruned trial that came furthest, of those that the pruner would now let go on.

        Of trials that were stopped at the same evaluation by the same rule, only the best can be: others are not looked at.
        """
        pruned = [one for one in self.records() if one.state == "pruned"]
        groups: dict[Any, list[TrialRecord]] = {}
        for one in pruned:
            groups.setdefault((one.last, *(name for name, (at, _) in one.marks.items() if at == one.last)), []).append(one)
        for _, group in sorted(groups.items(), key=lambda item: -item[0][0]):
            best = min(group, key=lambda one: (one.values[one.last] if self._mode == "min" else -one.values[one.last], one.trial))
            if not self.stops(best.trial):
                return best
        return None

    def promote(self, trial: int) -> TrialRecord:
        """Let a pruned trial go on: it gets another entry in the storage, with all that is known of it."""
        frozen, subject = self._newest()[trial], self.record(trial)
        _, marks = self._judge(subject)
        again = self._optuna.create_trial(
            state=self._state("RUNNING"),
            params=dict(frozen.params),
            distributions=dict(frozen.distributions),
            user_attrs={TRIAL: trial, MARKS: {name: list(mark) for name, mark in marks.items()}},
            intermediate_values=dict(frozen.intermediate_values),
        )
        self._study.add_trial(again)
        return self.record(trial)

    def finish(self, trial: int, ending: Ending) -> TrialRecord:
        """Store how a trial ended. One that diverged counts as pruned at once: so the sampler learns to stay away."""
        frozen = self._newest()[trial]
        best = self._record(frozen).best(self._mode)
        open_trial = self._open(frozen)
        if ending.state == "finished" and best is None:
            ending = Ending("diverged", "no evaluation gave a number")
        if ending.error:
            open_trial.set_user_attr(ERROR if ending.state == "failed" else DIVERGED, ending.error)
        if ending.state == "finished":
            self._study.tell(open_trial, best)
        else:
            self._study.tell(open_trial, state=self._state("FAIL" if ending.state == "failed" else "PRUNED"))
        return self.record(trial)

    # --- Optuna's side of it

    def _judge(self, subject: TrialRecord) -> tuple[bool, dict[str, tuple[int, Any]]]:
        """What the pruner says, and the marks of the trial afterwards.

        It sees a study in memory with every trial once, under its own number, and this one as it was before its last evaluation
        was judged: so the answer is the same whenever it is asked for.
        """
        assert self._pruner is not None
        earlier = {name: mark for name, mark in subject.marks.items() if mark[0] < subject.last}
        with self._quietly():
            view = self._optuna.create_study(study_name=NAME, direction=f"{self._mode}imize", pruner=self._pruner())
            for one in self.records():
                is_subject = one.trial == subject.trial
                view.add_trial(self._as_trial(one, earlier if is_subject else one.marks, is_running=is_subject))
            stop = bool(view.pruner.prune(view, view.trials[subject.trial]))
            seen = view.trials[subject.trial].system_attrs
        return stop, earlier | {name: (subject.last, value) for name, value in seen.items() if name not in earlier}

    def _as_trial(self, one: TrialRecord, marks: Mapping[str, tuple[int, Any]], *, is_running: bool) -> Any:
        state = {"finished": "COMPLETE", "running": "RUNNING", "failed": "FAIL"}.get(one.state, "PRUNED")
        is_complete = state == "COMPLETE" and not is_running
        return self._optuna.create_trial(
            state=self._state("RUNNING" if is_running else state),
            value=one.best(self._mode) if is_complete else None,
            params=dict(one.stored),
            distributions={name: self._distributions[name] for name in one.stored},
            system_attrs={name: value for name, (_, value) in marks.items()},
            intermediate_values=dict(one.values),
        )

    def _record(self, trial: Any) -> TrialRecord:
        kept = trial.user_attrs
        states: dict[str, State] = {"COMPLETE": "finished", "PRUNED": "pruned", "FAIL": "failed"}
        state: State = states.get(trial.state.name, "running")
        if state == "pruned" and DIVERGED in kept:
            state = "diverged"
        marks = {name: (int(at), value) for name, (at, value) in kept.get(MARKS, {}).items()}
        said = str(kept.get(ERROR, kept.get(DIVERGED, "")))
        values = dict(trial.intermediate_values)
        return TrialRecord(int(kept[TRIAL]), dict(trial.params), state, values, marks, kept.get(LAST) in values, said)

    def _newest(self) -> dict[int, Any]:
        """The newest entry of each trial, by the number of the trial."""
        return {int(one.user_attrs[TRIAL]): one for one in self._trials() if TRIAL in one.user_attrs}

    def _trials(self) -> Sequence[Any]:
        return self._study.get_trials(deepcopy=False)  # type: ignore[no-any-return]

    def _open(self, frozen: Any) -> Any:
        return self._optuna.trial.Trial(self._study, frozen._trial_id)

    def _state(self, name: str) -> Any:
        return self._optuna.trial.TrialState[name]

    def _distribution(self, one: Parameter) -> Any:
        distributions = self._optuna.distributions
        if not isinstance(one, Range):
            return distributions.CategoricalDistribution(one.stored)
        if one.is_whole:
            return distributions.IntDistribution(int(one.low), int(one.high), log=one.log, step=int(one.step or 1))
        return distributions.FloatDistribution(one.low, one.high, log=one.log, step=one.step)

    @contextlib.contextmanager
    def _quietly(self) -> Iterator[None]:
        """Without Optuna's own lines about studies and trials."""
        logging = self._optuna.logging
        before = logging.get_verbosity()
        logging.set_verbosity(logging.ERROR)
        try:
            yield
        finally:
            logging.set_verbosity(before)


def require_same(before: Mapping[str, Any], now: Mapping[str, Any], folder: Path) -> None:
    """Raises where the folder holds a sweep that searches something else."""
    for name in dict.fromkeys([*before, *now]):
        if before.get(name) != now.get(name):
            raise DescriptionError(
                f"{folder} holds a sweep with {name} {_said(before.get(name))}, this one has {_said(now.get(name))}; "
                "use another folder=, or the old setting; instep sweep --fresh moves the old sweep aside."
            )


def _said(value: Any) -> str:
    if isinstance(value, Mapping):
        return " ".join(f"{name}={one}" for name, one in value.items()) or "nothing"
    return "nothing" if value is None else str(value)
