"""Two runs replayed side by side, update by update, to the first thing in which they differ."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any, TypeVar

from torch import Tensor

from instep import keys
from instep.data.loading.loader import Batch
from instep.errors import NonFiniteGradient, NonFiniteLoss
from instep.proof.diverge_files import compare_histories, named_tensors
from instep.proof.replay_check import Check, check, number_or_word
from instep.proof.replay_start import HasRun, Start, begin
from instep.records import Update
from instep.report.weights import compare
from instep.run.run import Run
from instep.run.run_files import RecordedRun
from instep.text import listed, number, rate

T = TypeVar("T")
Pair = tuple[T, T]


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
    updates: int  # that are the same
    difference: FirstDifference | None
    checks: tuple[Check, Check]
    failed: str | None = None  # why they were not replayed further


class _Side:
    """One of two runs that are replayed: the batch of its present update, and the weights before its first."""

    def __init__(self, trainer: HasRun, recorded: RecordedRun, *, start: int, to: int) -> None:
        self.run = trainer.run
        self.batch: Batch | None = None
        self.first: dict[str, Tensor] = {}
        self.start = begin(self.run, recorded, to - 1, before_update=self._begin_update, newest=start)
        self.updates = trainer.updates()
        self._recorded = recorded

    def _begin_update(self, batch: Batch) -> None:
        if self.batch is None:
            self.first = {name: value.clone() for name, value in named_tensors({"weight": self.run.model.state_dict()})}
        self.batch = batch

    def check(self) -> Check:
        return check(self._recorded.history, self.run.logbook.history, self.start.step)


def replay_both(trainers: Pair[HasRun], recorded: Pair[RecordedRun], *, start: int, to: int) -> SideBySide:
    """Replay two runs from their checkpoints of a step (0: from the start) until so many updates are made, or they differ."""
    one, other = (_Side(trainer, told, start=start, to=to) for trainer, told in zip(trainers, recorded, strict=True))
    same, difference, failed = 0, None, None
    try:
        with closing(one.updates), closing(other.updates):
            for updates in zip(one.updates, other.updates, strict=False):
                difference = _compare(one, other, updates)
                same += difference is None
                if difference is not None or one.run.state.step >= to:
                    break
        difference = difference or _compare_evaluations(one.run, other.run)
    except (NonFiniteLoss, NonFiniteGradient) as error:
        failed = str(error)
    return SideBySide((one.start, other.start), same, difference, (one.check(), other.check()), failed)


def _compare(one: _Side, other: _Side, updates: Pair[Update]) -> FirstDifference | None:
    """The first difference of two updates, in the order in which things come about."""
    step = updates[0].step
    if step != updates[1].step:
        return FirstDifference(step, f"one begins at step {step:,}, the other at {updates[1].step:,}")
    assert one.batch is not None
    assert other.batch is not None
    runs = one.run, other.run
    found = _first((one.first, other.first), step, " differs before it") if step == one.start.step else None
    return found or _compare_given(runs, (one.batch, other.batch), step) or _compare_made(runs, updates)


def _compare_given(runs: Pair[Run], batches: Pair[Batch], step: int) -> FirstDifference | None:
    """What two updates are given: the samples, their values, the key of what is drawn at random."""
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


def _compare_made(runs: Pair[Run], updates: Pair[Update]) -> FirstDifference | None:
    """What two updates made: the loss, the gradients, the weights, the state of the optimizers, in the order of their making."""
    step, (one, other) = updates[0].step, updates
    if one.skipped != other.skipped:
        return FirstDifference(step, "one of the two is skipped")
    values = [{"loss": {"": update.loss, **update.losses}} for update in updates]
    lr = "" if one.lrs == other.lrs else f" (lr is {rate(one.lr)} and {rate(other.lr)})"
    for parts, words in ((values, " differs"), (_gradients(runs), " differs"), (_states(runs), f" differs after it{lr}")):
        found = _first((dict(named_tensors(parts[0])), dict(named_tensors(parts[1]))), step, words)
        if found is not None:
            return found
    return None


def _compare_evaluations(one: Run, other: Run) -> FirstDifference | None:
    """What was evaluated on the way, where the updates are all the same."""
    found = compare_histories(one.logbook.history, other.logbook.history).difference
    if found is None:
        return None
    values = f"{number_or_word(found.recorded)} and {number_or_word(found.replayed)}"
    return FirstDifference(found.step - 1, f"the weights are the same, and {found.name} after it is {values}")


def _gradients(runs: Pair[Run]) -> list[dict[str, Any]]:
    return [{"gradient of": {n: p.grad for n, p in run.model.named_parameters() if p.grad is not None}} for run in runs]


def _states(runs: Pair[Run]) -> list[dict[str, Any]]:
    return [{"weight": run.model.state_dict(), "optimizer state": run.model_state.parts()["optimizer"]} for run in runs]


def _first(states: Pair[dict[str, Tensor]], step: int, words: str) -> FirstDifference | None:
    for name, tensor, others in _common(states):
        found = compare(name, tensor, others)
        if found is not None:
            by = found.note or f"by {number(found.largest)}, {number(found.relative)} of its largest value"
            return FirstDifference(step, f"{name.strip()}{words}: {by}")
    return None


def _common(states: Pair[dict[str, Tensor]]) -> Iterator[tuple[str, Tensor, Tensor]]:
    for name, tensor in states[0].items():
        if name in states[1]:
            yield name, tensor.detach(), states[1][name].detach()
