"""Promise 7, overflow: a memory that is pretended to hold half a batch, beside micro-batches of that size from the start."""

import contextlib
from typing import Any

import torch

from instep.errors import InstepError
from instep.loop.objective import Objective
from instep.proof.causes import find_causes
from instep.proof.exact import measure_apart
from instep.proof.record import Difference, Record, compare
from instep.proof.result import Row
from instep.proof.split import own_dtype
from instep.proof.subject import Arrangement, rounds_to
from instep.proof.trial import Trial, first_line
from instep.run.run import Run

WHOLE: dict[str, Any] = {"update_cycle": 1, "micro_batch_size": None}


def prove_overflow(trial: Trial) -> Row:
    """The row of the promise."""
    plan = trial.look.plan
    samples = min(plan.batch_size, plan.samples)
    if samples < 2 or samples // 2 < plan.fewest:
        return Row("overflow", "", "does not apply", meaning=f"a batch of {samples} cannot be split in two.")
    room = -(-samples // 2)
    words = f"a memory for {room} samples"
    trial.tell(words)
    try:
        one, other = _train(trial, room, in_float64=False)
    except InstepError as error:
        return Row("overflow", words, "does not apply", meaning=first_line(error))
    again = f"the update that did not fit was made again from its start: as with micro_batch_size={room} from the start"
    if compare(one, other) is None:
        return Row("overflow", words, "bitwise", meaning=f"{again}. (The memory was pretended.)")
    ones, others = [one], [other]
    with contextlib.suppress(Exception):  # where the model does not compute in float64
        wide = _train(trial, room, in_float64=True)
        ones, others = [one, wide[0]], [other, wide[1]]
    gap = measure_apart(ones, others, own_dtype(trial.look))
    if gap.is_beyond or gap.buffers:
        causes = tuple(find_causes(trial, Difference("gradient", gap.tensor, 0, gap.worst)))
        first = (
            f"The gradient of the first update ({gap.tensor}) differs by {gap}; losses by {rounds_to(gap.losses)}: no rounding."
        )
        return Row("overflow", words, "differs", max(gap.worst, gap.losses), first, causes, **gap.measured)
    meaning = f"{again}; the rest is rounding: {gap}. (The memory was pretended.)"
    return Row("overflow", words, "exact", gap.shown, meaning, **gap.measured)


def _train(trial: Trial, room: int, *, in_float64: bool) -> tuple[Record, Record]:
    """With micro-batches that fit from the start, and with a memory that shows it."""
    one = trial.train(Arrangement(WHOLE, largest=room, in_float64=in_float64))
    split = Arrangement({**WHOLE, "on_out_of_memory": "split"}, in_float64=in_float64)
    return one, trial.train(split, before=lambda trainer: _pretend_memory(trainer.run, room))


def _pretend_memory(run: Run, room: int) -> None:
    """From now on a forward of more samples fails as a full memory does, after it has drawn numbers and changed buffers."""
    layout = run.feed.layout

    def around(objective: Objective) -> Objective:
        def forward(model: Any, batch: Any) -> Any:
            loss = objective(model, batch)
            if (layout.size(batch) or 0) > room:
                raise torch.OutOfMemoryError(f"out of memory: this one was pretended to hold {room} samples")
            return loss

        return forward

    for stepper in run.steppers:
        stepper.wrap(around)
