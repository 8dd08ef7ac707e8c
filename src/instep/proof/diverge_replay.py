"""Two runs replayed side by side, update by update, to the first thing in which they differ."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from instep import keys
from instep.data.loading.loader import Batch
from instep.errors import NonFiniteGradient, NonFiniteLoss
from instep.proof.diverge_files import compare_histories, named_tensors
from instep.proof.replay_check import Check, check, number_or_word
from instep.proof.replay_loop import ReplayLoop
from instep.proof.replay_start import Start, begin
from instep.records import Update
from instep.report.weights import compare
from instep.run.run import Run
from instep.run.run_files import RecordedRun
from instep.text import listed, number, rate


@dataclass(frozen=True)
class FirstDifference:
    """The first thing in which two runs differ: in the update of which step, what it is, and by how much."""

    step: int
    what: str

    def __str__(self) -> str:
        return f"in the update of step {self.step:,}, {self.what}"


@dataclass(frozen=True)
class SideBySide:
    """What two replays found; `checks` are those of each against its own history."""

    starts: tuple[Start, Start]
    updates: int  # that were made and compared
    difference: FirstDifference | None
    checks: tuple[Check, Check]
    failed: str | None = None  # why they were not replayed further


def replay_both(runs: tuple[Run, Run], recorded: tuple[RecordedRun, RecordedRun], *, start: int, to: int) -> SideBySide:
    """Replay two runs from their checkpoints of a step (0: from the start) until so many updates are made, or they differ."""
    one, other = (begin(run, told, to - 1, newest=start) for run, told in zip(runs, recorded, strict=True))
    updates, difference, failed = 0, None, None
    try:
        with ExitStack() as stack:
            loops = tuple(stack.enter_context(ReplayLoop(run)) for run in runs)
            difference = _before_the_first(runs)
            for batches in zip(*(loop.batches() for loop in loops), strict=False) if difference is None else ():
                difference = _compare_given(runs, batches)
                if difference is None:
                    made = tuple(loop.make_update(batch) for loop, batch in zip(loops, batches, strict=True))
                    difference = _compare_made(runs, made)
                    updates += 1
                if difference is not None or runs[0].state.step >= to:
                    break
        difference = difference or _compare_evaluations(runs)
    except (NonFiniteLoss, NonFiniteGradient) as error:
        failed = str(error)
    checks = [check(told.history, run.logbook.history, one.step) for told, run in zip(recorded, runs, strict=True)]
    return SideBySide((one, other), updates, difference, (checks[0], checks[1]), failed)


def _before_the_first(runs: tuple[Run, ...]) -> FirstDifference | None:
    if runs[0].state.step != runs[1].state.step:
        return FirstDifference(runs[0].state.step, f"one begins at step {runs[0].state.step}, the other at {runs[1].state.step}")
    states = [dict(named_tensors({"weight": run.model.state_dict()})) for run in runs]
    return _first(states, runs[0].state.step, " differs before it")


def _compare_given(runs: tuple[Run, ...], batches: tuple[Batch, ...]) -> FirstDifference | None:
    """What two updates are given: the samples, their values, the key of what is drawn at random."""
    step = runs[0].state.step
    samples = [run.loader.origin(batch.indices) for run, batch in zip(runs, batches, strict=True)]
    if samples[0].tolist() != samples[1].tolist():
        first = (listed(each.tolist(), most=6) for each in samples)
        return FirstDifference(step, f"the batches have other samples: {' and '.join(f'({each})' for each in first)}")
    columns = [dict(run.feed.layout.columns(batch.data)) for run, batch in zip(runs, batches, strict=True)]
    for name, column in columns[0].items():
        found = _differing_rows(column, columns[1].get(name))
        if found:
            named = listed((int(samples[0][row]) for row in found), most=6)
            by = number(_largest(column, columns[1][name]))
            return FirstDifference(step, f"column {name or 0} of the batch has other values, by {by} at most: sample {named}")
    if (seeds := [run.options.seed for run in runs])[0] != seeds[1]:
        drawn = [keys.for_step(seed, step) for seed in seeds]
        return FirstDifference(step, f"the key of the step differs: {drawn[0]} and {drawn[1]}, of seed={seeds[0]} and {seeds[1]}")
    return None


def _differing_rows(one: Any, other: Any) -> list[int]:
    if not (isinstance(one, Tensor) and isinstance(other, Tensor)) or one.shape != other.shape or compare("", one, other) is None:
        return []
    return [row for row in range(len(one)) if compare("", one[row], other[row]) is not None]


def _largest(one: Tensor, other: Tensor) -> float:
    found = compare("", one, other)
    return 0.0 if found is None or found.largest is None else found.largest


def _compare_made(runs: tuple[Run, ...], updates: tuple[Update, ...]) -> FirstDifference | None:
    """What two updates made: the loss, the gradients, the weights, the state of the optimizers, in the order of their making."""
    step, (one, other) = updates[0].step, updates
    if one.skipped != other.skipped:
        return FirstDifference(step, "one of the two is skipped")
    values = [{"loss": {"": update.loss, **update.losses}} for update in updates]
    lr = "" if one.lrs == other.lrs else f" (lr is {rate(one.lr)} and {rate(other.lr)})"
    for parts, words in ((values, " differs"), (_gradients(runs), " differs"), (_states(runs), f" differs after it{lr}")):
        found = _first([dict(named_tensors(part)) for part in parts], step, words)
        if found is not None:
            return found
    return None


def _compare_evaluations(runs: tuple[Run, ...]) -> FirstDifference | None:
    """What was evaluated on the way, where the updates are all the same."""
    found = compare_histories(*(run.logbook.history for run in runs)).difference
    if found is None:
        return None
    values = f"{number_or_word(found.recorded)} and {number_or_word(found.replayed)}"
    return FirstDifference(found.step - 1, f"the weights are the same, and {found.name} after it is {values}")


def _gradients(runs: tuple[Run, ...]) -> list[dict[str, Any]]:
    return [{"gradient of": {n: p.grad for n, p in run.model.named_parameters() if p.grad is not None}} for run in runs]


def _states(runs: tuple[Run, ...]) -> list[dict[str, Any]]:
    return [{"weight": run.model.state_dict(), "optimizer state": run.model_state.parts()["optimizer"]} for run in runs]


def _first(states: list[dict[str, Tensor]], step: int, words: str) -> FirstDifference | None:
    for name, tensor, others in _common(states):
        found = compare(name, tensor, others)
        if found is not None:
            by = found.note or f"by {number(found.largest)}, {number(found.relative)} of its largest value"
            return FirstDifference(step, f"{name.strip()}{words}: {by}")
    return None


def _common(states: list[dict[str, Tensor]]) -> Iterator[tuple[str, Tensor, Tensor]]:
    for name, tensor in states[0].items():
        if name in states[1]:
            yield name, tensor.detach(), states[1][name].detach()
