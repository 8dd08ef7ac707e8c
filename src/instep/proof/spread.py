"""Promise 3, spread: real processes under torchrun, beside one process that makes the same micro-batches.

Judged in float64, where rounding stays small over all updates: the gradient of the first update by the bound of a split, losses
and weights after more of them by a wider one.
"""

import contextlib
from typing import Any

import torch

from instep.proof import children
from instep.proof.causes import find_causes
from instep.proof.children import ChildFailed
from instep.proof.new_processes import PROCESSES, NewProcesses, spread_arrangements, too_small
from instep.proof.record import Difference, Record, apart, gradients_apart, weights_apart
from instep.proof.result import Cause, Row
from instep.proof.split import BOUNDS, case_of, name_of, own_dtype
from instep.proof.split_causes import find_state_cause
from instep.proof.subject import Arrangement, quiet, rounds_to
from instep.proof.trial import Trial
from instep.text import listed

DRIFT = 1e-6  # of losses and buffers after some updates in float64: rounding grows from one to the next
DRIFT_WEIGHTS = 1e-4
DRIFT_OWN = 5e-2  # of losses where there is no float64


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
        return Row("spread", words, "fails", meaning=failure)
    return _compared(trial, words, alone, found, own_dtype(trial.look))


def _compared(trial: Trial, words: str, alone: list[Record], found: list[Record], own: torch.dtype) -> Row:
    is_wide = len(alone) > 1 and len(found) > 1
    one, other = (alone[-1], found[-1]) if is_wide else (alone[0], found[0])
    judged_in = torch.float64 if is_wide else own
    bound, limit = BOUNDS[judged_in], DRIFT if judged_in is torch.float64 else DRIFT_OWN
    worst, tensor = gradients_apart(one.first_gradients, other.first_gradients)
    shown = gradients_apart(alone[0].first_gradients, found[0].first_gradients)[0]
    common: dict[str, Any] = {"measured": {name_of(own): shown, name_of(judged_in): worst}, "bound": bound}
    losses, weights, buffers = _losses_apart(one, other), weights_apart(one.state, other.state), _buffers_apart(one, other)
    said = f"{rounds_to(worst)} in {name_of(judged_in)}, bound {rounds_to(bound)}"
    if _take_others(one, other):
        causes = tuple(find_causes(trial, Difference("samples", "", None, weights)))
        return Row("spread", words, "differs", weights, "the processes take other samples.", causes, **common)
    if worst > bound or losses > limit or (judged_in is torch.float64 and weights > DRIFT_WEIGHTS):
        causes = tuple(find_causes(trial, Difference("gradient", tensor, 0, worst)) or _of_state(trial, bound))
        meaning = f"The gradient of the first update ({tensor}) differs by {said}; losses by {rounds_to(losses)}: no rounding."
        return Row("spread", words, "differs", max(worst, losses), meaning, causes, **common)
    if buffers:
        meaning, cause = f"Weights are equal ({said}), buffers are not.", _of_buffers(list(buffers))
        return Row("spread", words, "differs", max(buffers.values()), meaning, (cause,), **common)
    meaning = (
        f"processes give the training of an update cycle of as many; the rest is rounding: {said}. For whole batches, see split."
    )
    return Row("spread", words, "exact", shown, meaning, **common)


def _take_others(one: Record, other: Record) -> bool:
    """Whether the samples of the first process are not the first of each batch."""
    pairs = zip(one.steps, other.steps, strict=False)
    return any(mine.indices[: len(theirs.indices)] != theirs.indices for mine, theirs in pairs)


def _losses_apart(one: Record, other: Record) -> float:
    pairs = zip(one.steps, other.steps, strict=False)
    gaps = [abs(a.losses[name] - b.losses[name]) / (abs(a.losses[name]) or 1.0) for a, b in pairs for name in a.losses]
    return max(gaps, default=0.0)


def _buffers_apart(one: Record, other: Record) -> dict[str, float]:
    """The buffers that differ by more than rounding, and by how much."""
    held = {name.partition("/")[2]: value for name, value in one.state.items() if name.startswith("buffers/")}
    gaps = {name: apart(value, other.state.get(f"buffers/{name}")) for name, value in held.items() if _is_real(value)}
    return {name: gap for name, gap in gaps.items() if gap > DRIFT}


def _is_real(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and not value.is_complex()


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
