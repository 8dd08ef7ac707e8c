"""Promise 3, spread: real processes under torchrun, beside one process that makes the same micro-batches."""

import contextlib

from instep.proof import children
from instep.proof.causes import find_causes
from instep.proof.children import ChildFailed
from instep.proof.exact import measure_apart
from instep.proof.new_processes import PROCESSES, NewProcesses, spread_arrangements, too_small
from instep.proof.record import Difference, Record
from instep.proof.repeat import find_process_causes
from instep.proof.result import Cause, Row
from instep.proof.split import BOUNDS, case_of, own_dtype
from instep.proof.split_causes import find_state_cause
from instep.proof.subject import Arrangement, quiet, rounds_to
from instep.proof.trial import Trial
from instep.text import listed


def prove_spread(trial: Trial, processes: NewProcesses) -> Row:
    """Two processes under torchrun, beside one that makes the same micro-batches."""
    words = f"{PROCESSES} processes, beside update_cycle={PROCESSES}"
    if not processes.has_any:
        meaning = "no other process can find this build(); put it into a file: instep prove FILE.py"
        return Row("spread", words, "not tried", meaning=meaning)
    if too_small(trial):
        return Row("spread", words, "does not apply", meaning="a batch is too small for two processes.")
    trial.tell(words)
    cycle = PROCESSES if trial.look.feed.is_dataloader else 1
    alone: list[Record] = []
    for arranged in spread_arrangements(trial):
        changes = {**arranged["changes"], "update_cycle": cycle}
        with contextlib.suppress(*([Exception] if arranged["in_float64"] else [])):
            alone.append(trial.train(Arrangement(**{**arranged, "changes": changes}, pieces=PROCESSES)))
    failure = ""
    try:
        found = processes.spread()
    except ChildFailed as error:
        found, failure = children.read_records(trial.folder / "spread"), str(error)
    if not found:
        if failure.startswith("DescriptionError"):
            return Row("spread", words, "does not apply", meaning=failure.partition(": ")[2])
        return Row("spread", words, "fails", meaning=failure, causes=find_process_causes(trial, only_seen=True))
    return _compared(trial, words, alone, found)


def _compared(trial: Trial, words: str, alone: list[Record], found: list[Record]) -> Row:
    gap = measure_apart(alone, found, own_dtype(trial.look))
    if _take_others(alone[0], found[0]):
        causes = tuple(find_causes(trial, Difference("samples", "", None, gap.weights)))
        return Row("spread", words, "differs", gap.weights, "The processes take other samples.", causes, **gap.measured)
    if gap.is_beyond:
        causes = tuple(find_causes(trial, Difference("gradient", gap.tensor, 0, gap.worst)) or _of_state(trial, gap.bound))
        first = (
            f"The gradient of the first update ({gap.tensor}) differs by {gap}; losses by {rounds_to(gap.losses)}: no rounding."
        )
        return Row("spread", words, "differs", max(gap.worst, gap.losses), first, causes, **gap.measured)
    if gap.buffers:
        meaning, cause = f"Weights are equal ({gap}), buffers are not.", _of_buffers(list(gap.buffers))
        return Row("spread", words, "differs", max(gap.buffers.values()), meaning, (cause,), **gap.measured)
    meaning = (
        f"processes give the training of an update cycle of as many; the rest is rounding: {gap}. For whole batches, see split."
    )
    return Row("spread", words, "exact", gap.shown, meaning, **gap.measured)


def _take_others(one: Record, other: Record) -> bool:
    """Whether the samples of the first process are not the first of each batch."""
    pairs = zip(one.steps, other.steps, strict=False)
    return any(mine.indices[: len(theirs.indices)] != theirs.indices for mine, theirs in pairs)


def _of_state(trial: Trial, bound: float) -> list[Cause]:
    """Whether the second of two forwards depends on the first, in one update of this process."""
    with quiet():
        trainer = trial.subject.trainer(Arrangement({"max_steps": 1}))
        for _ in trainer.updates():
            pass
        for stepper in trainer.run.steppers:
            with case_of(trainer.run, stepper) as case:
                found = find_state_cause(case, PROCESSES, max(bound, BOUNDS[own_dtype(trainer.run)]))
            if found:
                return found
    return []


def _of_buffers(buffers: list[str]) -> Cause:
    if any(name.rpartition(".")[2] in ("running_mean", "running_var") for name in buffers):
        return Cause(
            "batchnorm",
            "each process has running statistics of its own share of the batch; those of the first are kept.",
            "use GroupNorm or LayerNorm, or sync_batchnorm=True on accelerators.",
            listed(buffers, 3),
        )
    return Cause(
        "forward-state",
        f"{listed(buffers, 3)}: changed by each forward, and a process makes those of its own share.",
        "where it only counts, nothing; else change it once an update, in your loop over trainer.updates().",
        listed(buffers, 3),
    )
