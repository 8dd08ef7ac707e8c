"""Why a split changes an update: found by taking one thing after the other away, on the very batch."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from instep.data.structure import named_columns
from instep.errors import is_user_file
from instep.proof.in_pieces import DRAWS, NORMS, STATE, Case, Gradient
from instep.proof.record import apart
from instep.proof.result import Cause
from instep.proof.subject import rounds_to
from instep.text import listed, number


def find_split_causes(case: Case, pieces: int, bound: float) -> list[Cause]:
    """The causes, as far as taking things away shows them."""
    one, other = case.gradient(1, ()), case.gradient(1, ())
    if not torch.equal(one.vector, other.vector):
        return [of_unsteady(case, one, other)]
    if case.gap(pieces, ()) > bound:
        whole, cut = case.gradient(1, ()), case.gradient(pieces, ())
        return [_mixing_module(case, pieces, bound) or _of_the_loss(case, pieces, bound, whole, cut)]
    alone = [thing for thing in (NORMS, DRAWS, STATE) if case.gap(pieces, (thing,)) > bound]
    others = "" if len(alone) == 1 else " and the other causes taken away"
    found = [_CAUSES[thing](case, pieces, others) for thing in alone]
    if DRAWS in alone and (hidden := _weight_behind_draws(case, pieces, bound)):
        found.append(hidden)
    if NORMS not in alone and STATE not in alone and (buffers := _buffers_apart(case, pieces, bound)):
        found.append(of_buffers(buffers, pieces))
    return found


def of_buffers(names: Sequence[str], pieces: int) -> Cause:
    """Buffers that each forward changes, and no gradient depends on."""
    shown = listed(names, 4)
    return Cause(
        "forward-state",
        f"the buffers {shown} differ, and no gradient by them: each forward changes them, and in {pieces} micro-batches there "
        f"are {pieces} forwards an update.",
        "where they only count, nothing; else change them once an update: in your loop over trainer.updates().",
        shown,
    )


def _buffers_apart(case: Case, pieces: int, bound: float) -> list[str]:
    """The buffers that the forwards of the pieces leave otherwise than that of the whole batch, with all draws alike."""
    whole, cut = case.buffers_after(1), case.buffers_after(pieces)
    pairs = {name: (value, cut.get(name)) for name, value in whole.items() if not value.is_complex()}
    return [name for name, (one, other) in pairs.items() if other is None or apart(one, other) > bound]


def of_unsteady(case: Case, one: Gradient, other: Gradient) -> Cause:
    """The same forward twice gives two gradients."""
    first, second = _outputs(case, 1), _outputs(case, 1)
    guilty = [name for name in first if _differs(first, second, name, 0.0)]
    innermost = next((name for name in guilty if not any(o != name and o.startswith(name) for o in guilty)), None)
    module = None if innermost is None else first[innermost][0]
    where = "" if module is None else f"{innermost} ({type(module).__name__}{_at(line_of(type(module).forward))})"
    return Cause(
        "unsteady-forward",
        f"the same batch from the same weights under the same key gives the loss {one.value:.8g} and then {other.value:.8g}.",
        "let model and objective draw from torch's global generator, which is keyed by the step, and keep no state elsewhere.",
        where,
    )


def _at(line: str) -> str:
    return f", {line}" if line else ""


# --- What was taken away


def _of_norms(case: Case, pieces: int, others: str) -> Cause:
    names = [f"{name or 'the model'} ({type(norm).__name__})" for name, norm in case.norms().items()]
    gap = case.gap(pieces, (NORMS,))
    return Cause(
        "batchnorm",
        f"BatchNorm takes its statistics over a micro-batch: the gradient differs by {rounds_to(gap)}, and not at all with "
        f"running statistics{others}.",
        "use GroupNorm or LayerNorm, freeze the norms with .eval(), or leave the batch whole: update_cycle=1.",
        listed(names, 4),
    )


def _of_draws(case: Case, pieces: int, others: str) -> Cause:
    where = case.draws()
    gap = case.gap(pieces, (DRAWS,))
    shown = [name if place in ("", name) else f"{name} ({place})" for name, place in where.items()]
    return Cause(
        "draws",
        f"the forward draws random numbers, and another split draws other ones: the gradient differs by {rounds_to(gap)}; with "
        f"the draws held alike{others} it is equal.",
        "nothing, where other masks or other noise of the same kind are as good; else p=0 for dropout, draws in the data set "
        "(keyed by sample), or update_cycle=1.",
        listed(shown, 4),
    )


def _of_state(case: Case, pieces: int) -> Cause:
    return Cause(
        "forward-state",
        f"a forward changes {_changed_names(case)}, and what the next one gives depends on it; in {pieces} micro-batches there "
        f"are {pieces} forwards an update.",
        "change it once an update: in your loop over trainer.updates(), by the step, not by counting forwards.",
        _changed_names(case),
    )


_CAUSES: dict[str, Callable[[Case, int, str], Cause]] = {
    NORMS: _of_norms,
    DRAWS: _of_draws,
    STATE: lambda case, pieces, others: _of_state(case, pieces),
}


def find_state_cause(case: Case, pieces: int, bound: float) -> list[Cause]:
    """State that one forward leaves to the next: of several processes, each has its own."""
    carried, fresh = case.gradient(pieces, (NORMS, DRAWS, STATE)).vector, case.gradient(pieces, (NORMS, DRAWS)).vector
    largest = float(fresh.abs().max()) if fresh.numel() else 0.0
    differs = largest and float((carried - fresh).abs().max()) > bound * largest
    return [_of_state(case, pieces)] if differs else []


def _changed_names(case: Case) -> str:
    """The buffers that a forward changes, else what the user's own attributes are called."""
    before = {name: b.clone() for root in case.modules for name, b in root.named_buffers()}
    put_back = case.keep()
    try:
        with torch.no_grad():
            case.forward(*case.cut(1)[0])
        now = {name: b for root in case.modules for name, b in root.named_buffers()}
        changed = [name for name, b in now.items() if name not in before or not torch.equal(b, before[name])]
    finally:
        put_back()
    return listed(changed, 4) if changed else "attributes of the model or the objective"


# --- What is left: the model mixes samples, or the loss is not the mean of its parts


def _mixing_module(case: Case, pieces: int, bound: float) -> Cause | None:
    """The first module that gives another output for a sample in another company, though its inputs are the same."""
    whole, cut = _outputs(case, 1), _outputs(case, pieces)
    for name, (module, given, gave) in whole.items():
        if name not in cut or _apart(given, cut[name][1]) > bound or not _apart(gave, cut[name][2]) > bound:
            continue
        inside = [other for other in whole if other != name and other.startswith(f"{name}." if name else "")]
        if any(_differs(whole, cut, other, bound) for other in inside):
            continue
        gap = _apart(gave, cut[name][2])
        return Cause(
            "coupled-model",
            f"the output of {name or 'the model'} ({type(module).__name__}) for a sample depends on the other samples of its "
            f"batch: it differs by {rounds_to(gap)} in {pieces} pieces, from equal inputs.",
            "take means and other statistics within a sample, not over dimension 0; or leave the batch whole: update_cycle=1.",
            line_of(type(module).forward) or name or "the model",
        )
    return None


Seen = dict[str, tuple[nn.Module, Tensor | None, Tensor | None]]


def _differs(whole: Seen, cut: Seen, name: str, bound: float) -> bool:
    return name in cut and _apart(whole[name][1], cut[name][1]) <= bound and _apart(whole[name][2], cut[name][2]) > bound


def _outputs(case: Case, pieces: int) -> Seen:
    """What goes into and comes out of every module, a row for each sample; of the pieces one after the other."""
    found: dict[str, list[tuple[Any, Any]]] = {}
    sizes: list[int] = []
    names = {module: name for name, module in case.model.named_modules()}

    def note(module: nn.Module, given: Any, gave: Any) -> None:
        calls = found.setdefault(names[module], [])
        if len(calls) < len(sizes):  # of a module that is called several times, the first call
            calls.append((given[0] if given else None, gave))

    hooks = [module.register_forward_hook(note) for module in names]
    put_back = case.keep()
    try:
        with case._without(()), torch.no_grad():
            for offset, piece in case.cut(pieces):
                put_back()
                sizes.append(case.size(piece))
                case.forward(offset, piece)
    finally:
        for hook in hooks:
            hook.remove()
        put_back()
    modules = {name: module for module, name in names.items()}
    return {
        name: (modules[name], _rows([g for g, _ in calls], sizes), _rows([o for _, o in calls], sizes))
        for name, calls in found.items()
        if len(calls) == len(sizes)
    }


def _rows(parts: Sequence[Any], sizes: Sequence[int]) -> Tensor | None:
    """The rows of all pieces under each other; None where these are no tensors with a row for each sample."""
    parts = [part[0] if isinstance(part, tuple | list) and part else part for part in parts]
    if not all(isinstance(part, Tensor) and part.ndim and len(part) == size for part, size in zip(parts, sizes, strict=True)):
        return None
    return torch.cat([part.detach().reshape(len(part), -1).double() for part in parts]) if _same_width(parts) else None


def _same_width(parts: Sequence[Tensor]) -> bool:
    return len({part[0].numel() for part in parts if len(part)}) == 1


def _apart(one: Tensor | None, other: Tensor | None) -> float:
    """0 where one of them is not known: nothing is concluded from that."""
    if one is None or other is None or one.shape != other.shape or not one.numel():
        return 0.0
    largest = float(one.abs().max())
    return float((one - other).abs().max()) / largest if largest else float((one - other).abs().max())


def _of_the_loss(case: Case, pieces: int, bound: float, whole: Gradient, cut: Gradient) -> Cause:
    weights, residual = _fitting_weights(whole, cut)
    used = cut.weights
    if residual <= max(bound, 1e-6):
        shares = f"the pieces weigh {_numbers(used)}, as they are counted, and {_numbers(weights)} in the loss of the whole batch"
        if all(abs(weight - 1) < 1e-3 for weight in weights) and len(weights) > 1:
            return Cause(
                "wrong-weight",
                f"{shares}: it is a sum, not a mean (whole {number(whole.value)}, mean of the parts {number(cut.value)}).",
                "return Loss.sum(value) from the objective, or divide it by the number of what it adds up.",
                case.line,
            )
        counted = _what_is_counted(case, pieces, weights)
        ratio = weights[0] / used[0] if used[0] else float("inf")
        fits = f" They fit the number of {counted[0]}." if counted else ""
        count = counted[1] if counted else "what the mean divides by"
        return Cause(
            "wrong-weight",
            f"{shares}: a ratio of {ratio:.4g} for the first.{fits} The loss is a mean over other units than it is counted by.",
            f"return Loss(value, count={count}) from the objective: `value` is a mean over `count` units.",
            case.line,
        )
    return Cause(
        "coupled-loss",
        f"the loss of the whole batch is {number(whole.value)}, the weighted mean of its {len(cut.values)} parts "
        f"{number(cut.value)} ({_numbers(cut.values)}), and no weights make the gradients equal: it compares samples with "
        "each other.",
        "leave the batch whole: update_cycle=1, micro_batch_size=None, one process. Each part would be another loss.",
        case.line,
    )


def _weight_behind_draws(case: Case, pieces: int, bound: float) -> Cause | None:
    """A wrong weight that shows only where samples have noise of their own: with one value for all they are alike.

    Only other weights that make the gradients equal prove it: noise may by chance have as many rows as there are samples.
    """
    whole, cut = case.gradient(1, (), by_sample=True), case.gradient(pieces, (), by_sample=True)
    largest = float(whole.vector.abs().max()) if whole.vector.numel() else 0.0
    if not largest or float((whole.vector - cut.vector).abs().max()) <= max(bound, 1e-6) * largest:
        return None
    found = _of_the_loss(case, pieces, bound, whole, cut)
    return found if found.name == "wrong-weight" else None


def _fitting_weights(whole: Gradient, cut: Gradient) -> tuple[list[float], float]:
    """The weights of the pieces that come nearest to the gradient of the whole, and how far they stay from it."""
    rows = torch.stack(cut.vectors, 1)
    weights = torch.linalg.lstsq(rows, whole.vector.unsqueeze(1), driver="gelsd").solution.squeeze(1)
    largest = float(whole.vector.abs().max()) or 1.0
    return weights.tolist(), float((rows @ weights - whole.vector).abs().max()) / largest


def _what_is_counted(case: Case, pieces: int, weights: Sequence[float]) -> tuple[str, str] | None:
    """What of the batch comes in these shares: `targets that are not -100`, and how to write its number."""
    parts = [dict(_counts(piece)) for _, piece in case.cut(pieces)]
    for words in parts[0]:
        counts = [part.get(words, 0.0) for part in parts]
        total = sum(counts)
        if total and all(abs(count / total - weight) < 1e-4 for count, weight in zip(counts, weights, strict=True)):
            return words
    return None


def _counts(piece: Any) -> Iterator[tuple[tuple[str, str], float]]:
    for name, column in named_columns(piece):
        if not isinstance(column, Tensor):
            continue
        first, bracket, rest = name.partition("[")
        shown = f"batch[{first}]{bracket}{rest}" if name else "batch"
        if not column.is_floating_point():
            for value in (-100, 0, -1, 1):
                yield (f"entries of {shown} that are not {value}", f"({shown} != {value}).sum()"), float((column != value).sum())
        yield (f"entries of {shown}, added up", f"{shown}.sum()"), float(column.double().sum())
        yield (f"entries of {shown}", f"{shown}.numel()"), float(column.numel())
        yield (f"rows of {shown}", f"len({shown})"), float(len(column))


def _numbers(values: Sequence[float]) -> str:
    return ", ".join(f"{value:.4g}" for value in values)


def line_of(function: Any) -> str:
    """FILE:LINE of a function of the user's own."""
    code = getattr(function, "__code__", None)
    if code is None or not is_user_file(code.co_filename):
        return ""
    return f"{Path(code.co_filename).name}:{code.co_firstlineno}"
