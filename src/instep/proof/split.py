"""Promise 1, split: the same training twice, with whole batches and with split ones, update by update from the same weights.

After every update the split training takes over the state of the other: so each update is compared by itself, and rounding does
not grow from one to the next. Gradients are judged, not weights: AdamW hides a wrong scale, and blows up rounding.
"""

import contextlib
import copy
import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from instep.data.pieces import bounds
from instep.loop.holders import find_holders
from instep.loop.out_of_memory import own_attributes
from instep.loop.stepper import Stepper
from instep.proof.in_pieces import Case
from instep.proof.record import Trainer, apart, gradients_apart, gradients_of, noise_tensors
from instep.proof.result import Cause, Row
from instep.proof.split_causes import find_split_causes, line_of, of_buffers
from instep.proof.subject import Arrangement, Subject, quiet, rounds_to, split_sizes, wide
from instep.run.run import Run
from instep.text import cut, listed

# The largest difference of a gradient, relative to the largest gradient of the update, that is called rounding. A training that
# splits right comes to 1e-15 and 1e-7; the smallest cause that was seen made 1e-4 in either.
BOUNDS = {torch.float64: 1e-10, torch.float32: 1e-5, torch.bfloat16: 1e-1, torch.float16: 1e-2}


@dataclass
class Gap:
    """How far a split training is from that with whole batches, in one precision."""

    bound: float
    worst: float = 0.0  # of the gradients
    tensor: str = ""
    step: int | None = None  # the first beyond the bound
    pieces: int = 0
    loss: float = 0.0
    buffers: dict[str, float] = field(default_factory=dict)  # beyond the bound
    noise: list[str] = field(default_factory=list)
    causes: list[Cause] = field(default_factory=list)

    @property
    def is_beyond(self) -> bool:
        return self.step is not None or bool(self.buffers)


def prove_split(subject: Subject, run: Run, tell: Callable[[str], object]) -> Row:
    """The row of the promise; `run` is one of the subject's, to look at."""
    plan = run.plan
    sizes = split_sizes(min(plan.batch_size, plan.samples), plan.fewest)
    own = own_dtype(run)
    if not sizes:
        return Row("split", "a batch of one sample", "does not apply", meaning="a batch of one sample cannot be split.")
    cycles = " and ".join(map(str, sizes))
    words = f"update_cycle={cycles}, beside 1"
    tell(f"{words}, in {name_of(own)}")
    gaps = {own: measure(subject, sizes, own)}
    tell(f"{words}, in float64")
    refused = ""
    if own is not torch.float64:
        try:
            gaps[torch.float64] = measure(subject, sizes, torch.float64)
        except Exception as error:  # whatever a model says that is made for float32
            refused = cut(str(error).partition("\n")[0], 110)
    judge = gaps.get(torch.float64, gaps[own])
    return _row(words, gaps, judge, own, refused)


def own_dtype(run: Run) -> torch.dtype:
    """What the run computes in: that of its parameters, or of autocast."""
    low = {"bf16": torch.bfloat16, "fp16": torch.float16}
    return low.get(run.options.precision) or next((p.dtype for p in run.model.parameters() if p.dtype in BOUNDS), torch.float32)


def measure(subject: Subject, sizes: list[int], dtype: torch.dtype) -> Gap:
    """The largest gap over some splits; stops at the first update that is beyond the bound, and finds out why."""
    found = Gap(BOUNDS[dtype])
    for pieces in sizes:
        gap = _in_step(subject, pieces, dtype)
        gap.noise = list(dict.fromkeys([*found.noise, *gap.noise]))
        if gap.is_beyond or gap.worst >= found.worst:
            found = gap
        if gap.is_beyond:
            break
    return found


def _in_step(subject: Subject, pieces: int, dtype: torch.dtype) -> Gap:
    is_wide = dtype is torch.float64
    gap = Gap(BOUNDS[dtype], pieces=pieces)
    with quiet(), contextlib.ExitStack() as stack:
        whole = subject.trainer(Arrangement(pieces=1, in_float64=is_wide))
        split = subject.trainer(Arrangement(pieces=pieces, in_float64=is_wide))
        stack.enter_context(wide(is_wide))
        updates = stack.enter_context(contextlib.closing(split.updates()))
        for update in stack.enter_context(contextlib.closing(whole.updates())):
            other = next(updates)
            _compare(gap, whole.run, split.run, update, other)
            if gap.is_beyond:
                gap.causes = _causes(whole.run, pieces, gap)
                break
            follow(split, whole)
    return gap


def _compare(gap: Gap, whole: Run, split: Run, update: Any, other: Any) -> None:
    gradients = gradients_of(whole)
    worst, tensor = gradients_apart(gradients, gradients_of(split))
    if not worst <= gap.worst:
        gap.worst, gap.tensor = worst, tensor
    gap.loss = max(gap.loss, apart(update.loss.detach(), other.loss.detach()))
    if update.step == 0:
        gap.noise = noise_tensors(gradients, gap.bound)
    if not worst <= gap.bound:
        gap.step = update.step
    theirs = dict(split.model.named_buffers())
    gaps = {name: apart(buffer, theirs.get(name)) for name, buffer in whole.model.named_buffers() if not buffer.is_complex()}
    gap.buffers = {name: size for name, size in gaps.items() if size > gap.bound}
    if gap.buffers and gap.step is None:
        gap.step = update.step


@torch.no_grad()
def follow(one: Trainer, other: Trainer) -> None:
    """Give one training the state of the other: weights, buffers, what its optimizers keep."""
    one.run.model_state.restore(copy.deepcopy(other.run.model_state.parts()), leave=())


# --- Causes


def _causes(run: Run, pieces: int, gap: Gap) -> list[Cause]:
    """Of every objective: what is known of one says nothing of the next."""
    found: list[Cause] = []
    for stepper in run.steppers:
        if stepper.batch is None:  # one that has its turn later (update_every)
            continue
        with case_of(run, stepper) as case:
            found += find_split_causes(case, pieces, gap.bound)
    found = list(dict.fromkeys(found))
    return found or ([of_buffers(list(gap.buffers), pieces)] if gap.buffers else [])


@contextlib.contextmanager
def case_of(run: Run, stepper: Stepper) -> Iterator[Case]:
    """The last batch of a run, to be cut and sent through its objective as often as wanted; all is put back."""
    batch, options, layout = stepper.batch, run.options, run.feed.layout
    assert batch is not None
    holders = find_holders(
        run.model, loss=options.loss, objective=options.objective, metrics=None, transform=run.feed.transforms[1]
    )

    def cut(pieces: int) -> list[tuple[int, Any]]:
        spans = bounds(batch.samples, pieces)
        if len(spans) == 1:
            return [(0, batch.data)]
        return [(start, layout.piece(batch.data, start, stop)) for start, stop in spans]

    model = run.precision.model
    with stepper.looking(batch, stepper.step):
        yield Case(
            run.model,
            lambda offset, piece: stepper.objective(model, (offset, piece)),
            cut,
            lambda piece: layout.size(piece) or 1,
            run.splitting.modules,
            own_attributes(holders),
            _line_of_objective(run, stepper),
        )


def _line_of_objective(run: Run, stepper: Stepper) -> str:
    given = run.options.objective
    function: Any = given.get(stepper.name) if isinstance(given, Mapping) else given or run.options.loss
    while isinstance(function, functools.partial):
        function = function.func
    return line_of(function) or line_of(getattr(type(function), "forward", None))


# --- Words


def _row(words: str, gaps: dict[torch.dtype, Gap], judge: Gap, own: torch.dtype, refused: str) -> Row:
    measured = {name_of(dtype): gap.worst for dtype, gap in gaps.items()}
    judged_in = name_of(torch.float64 if torch.float64 in gaps else own)
    noise = tuple(judge.noise)
    common: dict[str, Any] = {"measured": measured, "bound": judge.bound, "noise": noise}
    remark = f" {listed(noise, 4)}: gradient is rounding noise, not compared in weights." if noise else ""
    why = f" float64 is not possible here ({refused})." if refused else ""
    if judge.is_beyond:
        what = f"of {judge.tensor}" if judge.tensor else ""
        first = (
            f"First in update {judge.step}, update_cycle={judge.pieces}: the gradient {what} differs by {rounds_to(judge.worst)} "
        )
        if not judge.worst > judge.bound:
            first = f"First in update {judge.step}: gradients are equal, buffers are not "
        meaning = f"{first}(bound {rounds_to(judge.bound)} in {judged_in}): no rounding.{why}"
        size = judge.worst if judge.worst > judge.bound else max(judge.buffers.values(), default=judge.worst)
        return Row("split", words, "differs", size, meaning, tuple(judge.causes), **common)
    size = gaps[own].worst
    meaning = (
        f"a split batch gives the gradient of the whole one; the rest is rounding: {rounds_to(judge.worst)} in {judged_in}, "
    )
    return Row("split", words, "exact", size, f"{meaning}bound {rounds_to(judge.bound)}.{why}{remark}", **common)


def name_of(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
