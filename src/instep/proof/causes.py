"""Why two runs of one training differ where they should be equal bit for bit: in the data, in the model, or in the process."""

import contextlib
import copy
import warnings
from collections.abc import Iterator
from typing import Any

import torch

from instep.data.copies import copied
from instep.data.loading.sample_trial import SampleTrial
from instep.data.position import Position
from instep.data.sources.samples import Samples
from instep.data.sources.target import Targeted
from instep.data.sources.view import View
from instep.proof.record import Difference, digest
from instep.proof.result import Cause
from instep.proof.split import case_of
from instep.proof.split_causes import of_unsteady
from instep.proof.subject import Arrangement, quiet
from instep.proof.trial import Trial
from instep.proof.unsteady_calls import CLOCK, ENTROPY, PROCESS, UnsteadyCall, UnsteadyCalls
from instep.run.run import Run
from instep.text import listed

KEYED = "draw from the global generators of torch, NumPy or Python: while a sample loads they are keyed by its place."


def find_causes(trial: Trial, found: Difference) -> list[Cause]:
    """What can be shown of the cause, by where the two runs differ first. Nothing is named that was not seen."""
    with quiet():
        calls, run = _watch(trial)
        causes = list(_of_calls(calls))
        causes += _of_data(run, has_clock=bool(causes))
        if not causes and found.what not in ("samples", "batch"):
            causes += _of_forward(run)
        if not causes and (process := calls.of(PROCESS)):
            causes.append(of_process(process, by_hash=False, lines=[]))
    return causes


def of_observing(guilty: list[str], found: Difference) -> Cause:
    names = listed(guilty) or "all of them together"
    return Cause(
        "observed-state",
        f"{names} alone: the {found.what} of the next update is another one, so they change something that the training uses.",
        "look for state that your model, loss or data set keeps outside of itself (a global, a file, a shared object), and give "
        "the validation data objects of its own.",
    )


# --- Calls


def _watch(trial: Trial) -> tuple[UnsteadyCalls, Run]:
    """Build, load a few samples and make one update, with the user's own calls noted."""
    calls = UnsteadyCalls()
    with calls.watching():
        run: Run = trial.subject.trainer(Arrangement()).run
        samples = _samples_of(run)
        if samples is not None:
            with contextlib.suppress(Exception):
                for place in range(2):
                    samples.sample(place, Position(run.options.seed, 0, place))
    with contextlib.suppress(Exception):
        trainer = trial.subject.trainer(Arrangement({"max_steps": 1}))
        with calls.watching():
            for _ in trainer.updates():
                pass
        run = trainer.run
    return calls, run


def _of_calls(calls: UnsteadyCalls) -> Iterator[Cause]:
    clock, entropy = calls.of(CLOCK), calls.of(ENTROPY)
    if clock:
        yield Cause(
            "clock",
            f"your code asks for the time: {_shown(clock)}; it is another one in every run.",
            "take the value from the sample, the step or an argument of build(), not from the clock.",
            clock[0].line,
        )
    if entropy:
        yield Cause(
            "entropy",
            f"your code asks the system for random bits: {_shown(entropy)}; they are other ones in every run.",
            f"give it a seed, like default_rng(seed); where it draws for samples, {KEYED}",
            entropy[0].line,
        )


def of_process(calls: list[UnsteadyCall], *, by_hash: bool, lines: list[str]) -> Cause:
    """A value that is the same within one process and another one in the next."""
    where = lines if by_hash else [call.line for call in calls]
    if by_hash:
        return Cause(
            "hash-order",
            "two new processes with the same PYTHONHASHSEED give the same, with different ones they do not: the order of a set, "
            f"or hash() of a text, decides something{f' (see {listed(where, 3)})' if where else ''}.",
            "sort it: sorted(set(names)); for a hash that stays the same, use hashlib.",
            where[0] if where else "",
        )
    shown = f"your code calls {_shown(calls)}" if calls else "what it depends on was not found"
    return Cause(
        "process",
        f"the same run gives something else in a new process: {shown}.",
        "let nothing depend on the process: not on os.getpid(), id(), the time or the environment.",
        where[0] if where else "",
    )


def process_calls(trial: Trial) -> list[UnsteadyCall]:
    with quiet():
        return _watch(trial)[0].of(PROCESS)


def _shown(calls: list[UnsteadyCall]) -> str:
    return listed((f"{call.name} in {call.line}" for call in calls), 3)


# --- Data


def _of_data(run: Run, *, has_clock: bool) -> list[Cause]:
    samples = _samples_of(run)
    if samples is None:
        return []
    twice = _loaded_twice(run, samples)
    trial = SampleTrial(run.feed.train, run.options.seed)  # type: ignore[arg-type]  # a Stream has no samples
    if trial.notice is None:
        if not twice or has_clock:
            return []
        return [Cause("changing-data", twice, "a data set must give the same sample each time: keep nothing between two.", "")]
    notice = trial.notice.replace(
        " With another number of workers, or after the run was resumed, the samples are other ones.", ""
    )
    if "generator" in notice:
        what = notice.partition(" Draw from")[0]
        return [Cause("unkeyed-randomness", f"{what} {twice}".strip(), KEYED, _name_in(notice))]
    if "depends on what was loaded before" in notice and not (has_clock and ", by " not in notice):
        what, _, fix = notice.partition(" Keep nothing")
        return [Cause("changing-data", f"{what} {twice}".strip(), f"keep nothing{fix}", _name_in(notice))]
    return (
        []
        if has_clock
        else [Cause("worker-dependent", notice, "let a sample depend on its index and the keyed generators alone.", "")]
    )


def _name_in(notice: str) -> str:
    """`Noisy.rng` of what a notice says."""
    return next((word.strip(",.") for word in notice.split() if "." in word.strip(",.") and word[0].isupper()), "")


def _samples_of(run: Run) -> Samples | None:
    """What loads sample by sample, where the training data does."""
    source: Any = run.feed.train
    while isinstance(source, View | Targeted):
        source = source.source
    return source if isinstance(source, Samples) else None


def _loaded_twice(run: Run, samples: Samples) -> str:
    """Words for one sample that is another one when it is loaded again under the same key; "" where it is the same."""
    at = Position(run.options.seed, 0, 0)
    try:
        own = copied(samples, most_bytes=64e6)
        first = copy.deepcopy(own.sample(0, at))
        second = own.sample(0, at)
    except Exception:  # what cannot be copied, or loaded, is not tried
        return ""
    if digest(first) == digest(second):
        return ""
    return f"Sample 0, loaded twice under one key, begins with {_first_numbers(first)} and then with {_first_numbers(second)}."


def _first_numbers(sample: Any) -> str:
    while isinstance(sample, tuple | list | dict) and sample:
        sample = next(iter(sample.values())) if isinstance(sample, dict) else sample[0]
    try:
        return f"{torch.as_tensor(sample).double().reshape(-1)[0].item():.6g}"
    except (TypeError, ValueError, RuntimeError, IndexError):
        return repr(sample)[:40]


# --- The forward


def _of_forward(run: Run) -> list[Cause]:
    """The same forward and backward twice from the same weights; and what torch itself calls nondeterministic."""
    if run.leader.batch is None:
        return []
    with case_of(run, run.leader) as case:
        one, other = case.gradient(1), case.gradient(1)
        repeats = torch.equal(one.vector, other.vector) and one.values == other.values
        named = nondeterministic_operations(lambda: case.gradient(1))
    if named:
        return [
            Cause(
                "nondeterministic",
                f"torch calls {listed(named)} nondeterministic"
                f"{'' if repeats else ', and the same forward twice gives another gradient'}.",
                "pass deterministic=True to the Trainer, or use another operation.",
                listed(named),
            )
        ]
    return [] if repeats else [of_unsteady(case, one, other)]


def nondeterministic_operations(compute: Any) -> list[str]:
    """The operations that torch warns of in its deterministic mode."""
    enabled, warns = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            compute()
    finally:
        torch.use_deterministic_algorithms(enabled, warn_only=warns)
    words = [str(one.message) for one in said if "deterministic" in str(one.message)]
    return list(dict.fromkeys(word.split(" ")[0] for word in words))
