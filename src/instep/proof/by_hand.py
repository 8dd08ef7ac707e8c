"""Proofs for loops of people's own, without a Trainer: a split batch beside the whole, a resumed loop beside one that ran on."""

import copy
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from instep import keys
from instep.data.batch_layout import BatchLayout
from instep.data.pieces import bounds
from instep.data.structure import map_columns
from instep.errors import DescriptionError, NonFiniteLoss
from instep.loop.holders import find_holders
from instep.loop.objective import Loss, Objective, as_loss, from_loss
from instep.loop.out_of_memory import own_attributes
from instep.loop.update import UpdateCycle
from instep.proof.in_pieces import Case
from instep.proof.record import gradients_apart, noise_tensors
from instep.proof.result import Cause, Proof, Row, check_allowed
from instep.proof.resume_by_hand import Made, resume_row, train_on
from instep.proof.split import BOUNDS, name_of
from instep.proof.split_causes import find_split_causes, line_of
from instep.proof.subject import quiet, rounds_to, widened, widened_loss
from instep.text import cut, listed, number, plural

SEED = 0


def prove_update_cycle(
    model: nn.Module, loss_fn: Callable[..., Any], batch: Any, *, cycles: Sequence[int] = (1, 2, 4, 8), allow: Sequence[str] = ()
) -> Proof:
    """Whether a batch that `UpdateCycle` splits gives the gradient of the whole one: a row for each number of micro-batches.

    `loss_fn` is called as `loss_fn(model(x), y)` on a batch `(x, y)`. A function of `(model, batch)` that returns a `Loss`, a
    tensor or an output with `.loss` is told by the name of its first parameter, `model`. The model and its gradients are left as
    they were. `allow` names limits that are known and meant, as in `prove`.

        proof = instep.prove_update_cycle(model, F.cross_entropy, (x, y))
        assert proof.ok, proof

    >>> x, y = torch.randn(8, 3), torch.arange(8) % 2
    >>> prove_update_cycle(nn.Linear(3, 2), nn.functional.cross_entropy, (x, y), cycles=(2, 4)).ok
    True
    """
    samples = BatchLayout(None, None).size(batch)
    if not isinstance(model, nn.Module):
        raise DescriptionError(f"model is a {type(model).__name__}; pass a torch.nn.Module.")
    if not samples:
        raise DescriptionError(f"a batch of type {type(batch).__name__} holds no sample that could be split.")
    counts = [_whole_number(count) for count in cycles]
    if not counts:
        raise DescriptionError("cycles= names no number of micro-batches; use cycles=(2, 4).")
    rows = [_split_row(model, loss_fn, batch, count, samples) for count in counts]
    return Proof(tuple(rows), f"{type(model).__name__}: one update of {plural(samples, 'sample')}", check_allowed(allow))


def _split_row(model: nn.Module, loss_fn: Any, batch: Any, pieces: int, samples: int) -> Row:
    words = f"update_cycle={pieces}, beside the whole batch"
    if pieces > samples:
        return Row("split", words, "does not apply", meaning=f"{plural(samples, 'sample')} cannot be split into {pieces}.")
    own = next((p.dtype for p in model.parameters() if p.dtype in BOUNDS), torch.float32)
    try:
        measured, refused = {own: _measure(model, loss_fn, batch, pieces, own)}, ""
    except NonFiniteLoss as error:
        return Row("split", words, "fails", meaning=_of_nonfinite(model, loss_fn, batch, error))
    if own is not torch.float64:
        try:
            measured[torch.float64] = _measure(model, loss_fn, batch, pieces, torch.float64)
        except Exception as error:  # whatever a model says that is made for float32
            refused = f" float64 is not possible here ({cut(str(error).partition(chr(10))[0], 110)})."
    judged_in = torch.float64 if torch.float64 in measured else own
    gap, tensor, noise, causes = measured[judged_in]
    bound, said = BOUNDS[judged_in], f"{rounds_to(gap)} in {name_of(judged_in)}, bound {rounds_to(BOUNDS[judged_in])}"
    common: dict[str, Any] = {"measured": {name_of(d): found[0] for d, found in measured.items()}, "bound": bound}
    if not gap <= bound:
        meaning = f"The gradient of {tensor} differs by {said}: no rounding.{refused}"
        return Row("split", words, "differs", gap, meaning, tuple(causes), **common, noise=tuple(noise))
    remark = f" {listed(noise, 4)}: gradient is rounding noise." if noise else ""
    meaning = f"the gradient is that of the whole batch; the rest is rounding: {said}.{refused}{remark}"
    return Row("split", words, "exact", measured[own][0], meaning, **common, noise=tuple(noise))


def _of_nonfinite(model: nn.Module, loss_fn: Any, batch: Any, error: NonFiniteLoss) -> str:
    """What a loss that is not finite in the pieces means; where the whole batch has one too, that is the user's error."""
    case = _case(copy.deepcopy(model), loss_fn, _objective(loss_fn), batch)
    with quiet(), torch.no_grad():
        whole = float(case.forward(*case.cut(1)[0]).value)
    if not math.isfinite(whole):
        raise error
    return (
        f"{str(error).partition(';')[0]}, and that of the whole batch {number(whole)}. A mean over nothing is nan, as where all "
        "targets of a micro-batch are ignored: return Loss(total / count.clamp(min=1), count), which leaves such a piece out."
    )


def _measure(
    model: nn.Module, loss_fn: Any, batch: Any, pieces: int, dtype: torch.dtype
) -> tuple[float, str, list[str], list[Cause]]:
    """The gap of the gradients, whose it is, which tensors are noise, and the causes where it is beyond the bound."""
    is_wide, before = dtype is torch.float64, torch.get_default_dtype()
    with quiet():
        model, loss_fn = copy.deepcopy((model, loss_fn)) if isinstance(loss_fn, nn.Module) else (copy.deepcopy(model), loss_fn)
        if is_wide:
            model, loss_fn, batch = model.double(), widened_loss(loss_fn), map_columns(widened, batch)
            torch.set_default_dtype(torch.float64)
        try:
            objective = _objective(loss_fn)
            case = _case(model, loss_fn, objective, batch)
            whole, split = _gradients(case, 1), _gradients(case, pieces)
            gap, tensor = gradients_apart(whole, split)
            causes = find_split_causes(case, pieces, BOUNDS[dtype]) if not gap <= BOUNDS[dtype] else []
        finally:
            torch.set_default_dtype(before)
    return gap, tensor, noise_tensors(whole, BOUNDS[dtype]), causes


def _gradients(case: Case, pieces: int) -> dict[str, Tensor]:
    """The gradients that UpdateCycle makes, without a step: the optimizer's learning rate is 0."""
    put_back = case.keep()
    cycle = UpdateCycle(torch.optim.SGD(case.parameters(), lr=0.0))
    cycle.run(case.cut(pieces), lambda piece: case.forward(*piece))
    put_back()
    return {name: p.grad.detach().clone() for name, p in case.model.named_parameters() if p.grad is not None}


def _case(model: nn.Module, loss_fn: Any, objective: Objective, batch: Any) -> Case:
    layout = BatchLayout(None, None)
    samples = layout.size(batch) or 0

    def forward(offset: int, piece: Any) -> Loss:
        keys.seed_all(keys.for_step(SEED, 0, offset))
        return as_loss(objective(model, piece), piece)

    def cut(pieces: int) -> list[tuple[int, Any]]:
        spans = bounds(samples, pieces)
        return [(a, batch if len(spans) == 1 else layout.piece(batch, a, b)) for a, b in spans]

    holders = find_holders(model, loss=loss_fn, objective=None, metrics=None, transform=None)
    return Case(
        model, forward, cut, lambda piece: layout.size(piece) or 1, holders.modules, own_attributes(holders), line_of(loss_fn)
    )


def _objective(loss_fn: Any) -> Objective:
    code = getattr(loss_fn, "__code__", None)
    if code is not None and code.co_varnames[:1] == ("model",):
        objective: Objective = loss_fn
        return objective
    return from_loss(loss_fn)


def _whole_number(count: Any) -> int:
    if not isinstance(count, int) or isinstance(count, bool) or count < 1:
        raise DescriptionError(f"cycles= has {count!r}; use whole numbers of micro-batches, 1 or more.")
    return count


# --- Resuming


def prove_resume(make: Callable[[], Made], steps: int = 10, *, stops: Sequence[int] | None = None) -> Proof:
    """Whether a loop of your own, saved and resumed, goes on as if it had never stopped: a row for each place where it stops.

    `make()` sets everything up anew and gives `(step, state)`: `step(i)` makes update i and may return its loss; `state` is what
    you save, by name: whatever has `state_dict()` and `load_state_dict()`, like the model, the optimizer, the scheduler. The
    proof saves it with torch.save, makes everything anew as a new process would, loads it, and goes on.

        def make():
            model = Net()
            optimizer = torch.optim.AdamW(model.parameters())
            def step(i):
                optimizer.zero_grad()
                loss = loss_fn(model(x[i]), y[i])
                loss.backward()
                optimizer.step()
                return loss
            return step, {"model": model, "optimizer": optimizer}

        assert instep.prove_resume(make, steps=10).ok

    >>> def make():
    ...     _ = torch.manual_seed(0)
    ...     model = nn.Linear(3, 1)
    ...     optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    ...
    ...     def step(i):
    ...         optimizer.zero_grad()
    ...         model(torch.ones(2, 3)).mean().backward()
    ...         optimizer.step()
    ...
    ...     return step, {"model": model, "optimizer": optimizer}
    >>> prove_resume(make, steps=4).ok
    True
    """
    if not isinstance(steps, int) or isinstance(steps, bool) or steps < 2:
        raise DescriptionError(f"steps={steps!r} must be a whole number, 2 or more: the loop stops before its last update.")
    places = sorted({1, steps // 2, steps - 1}) if stops is None else list(stops)
    for place in places:
        if not isinstance(place, int) or not 0 < place < steps:
            raise DescriptionError(f"stops= has {place!r}; the loop has {steps} updates, so it can stop after 1 to {steps - 1}.")
    with quiet():
        straight = train_on(make, steps)
        rows = [resume_row(make, steps, place, straight) for place in places]
    return Proof(tuple(rows), f"a loop of {plural(steps, 'update')}, saved and resumed")
