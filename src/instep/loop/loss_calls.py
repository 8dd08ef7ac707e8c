"""LossCalls: the losses of torch that a forward calls, which of them its result is made of, and where their targets are from.

    value = Σ aₖ·callₖ

The factors aₖ are the derivatives of the value by its calls; what the sum leaves over is something else. A target is an entry
of the batch, as it is or without the first of each sequence.
"""

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, get_gradient_edge
from torch.overrides import TorchFunctionMode

from instep.errors import DescriptionError
from instep.loop.loss_checks import CLASSES
from instep.loop.loss_counts import elements, sequences
from instep.loop.torch_losses import RULES, Counted, Threshold, known


@dataclass(frozen=True)
class LossCall:
    """One call of a loss of torch, as it was when it was made: its result may be changed in place afterwards."""

    name: str
    counted: Counted
    output: Any
    target: Tensor
    value: Tensor
    edge: GradientEdge | None
    weight: Tensor | None = None  # of the classes
    factor: float = 1.0  # in what the loss is made of


@contextmanager
def watch_losses() -> Iterator[list[LossCall]]:
    """Inside, the calls of torch's losses are listed. Nothing is computed in another way."""
    calls: list[LossCall] = []
    with _Watching(calls):
        yield calls


class _Watching(TorchFunctionMode):
    def __init__(self, calls: list[LossCall]) -> None:
        super().__init__()
        self._calls = calls

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        if function in _LOSSES and isinstance(result, Tensor) and not result.ndim:
            call = _read(function, args, kwargs or {}, result)
            if call is not None:
                self._calls.append(call)
        return result


_LOSSES = {function for function in RULES if getattr(function, "__module__", "") == "torch.nn.functional"} & {
    value for value in vars(nn.functional).values() if inspect.isfunction(value)
}


def _read(function: Callable[..., Any], args: Any, kwargs: Any, result: Tensor) -> LossCall | None:
    parameters = inspect.signature(function)
    given = dict(parameters.bind(*args, **kwargs).arguments)
    inputs = list(parameters.parameters)[: RULES[function].forms[0].width]
    options = {name: value for name, value in given.items() if name not in inputs}
    try:
        counted = known(functools.partial(function, **options))
    except DescriptionError:
        return None
    target = given.get("target", given.get("targets"))
    if counted is None or not isinstance(target, Tensor):
        return None
    edge = get_gradient_edge(result) if result.requires_grad else None
    return LossCall(
        function.__name__, counted, given[inputs[0]], target.detach(), result.detach().clone(), edge, options.get("weight")
    )


def find_terms(value: Tensor, calls: list[LossCall]) -> tuple[list[LossCall] | None, bool]:
    """The calls that a loss is made of, and whether there is something else in it; None where it takes gradients to see that."""
    same = [call for call in calls if torch.equal(call.value, value) or (len(calls) == 1 and call.value.isnan())]
    if same:
        return same[:1], False
    if not calls:
        return [], True
    if not value.requires_grad:
        return None, True
    edges = [call for call in calls if call.edge is not None]
    factors = torch.autograd.grad(value, [call.edge for call in edges], retain_graph=True, allow_unused=True)  # type: ignore[arg-type]
    used = [
        replace(call, factor=float(factor)) for call, factor in zip(edges, factors, strict=True) if factor is not None and factor
    ]
    parts = [call.factor * float(call.value) for call in used]
    left = abs(float(value.detach()) - sum(parts))
    return used, left > 4 * len(parts) * torch.finfo(value.dtype).eps * sum(map(abs, parts))


@dataclass(frozen=True)
class Targeted:
    """A loss of torch whose target is an entry of the batch."""

    entry: str
    counted: Counted
    is_shifted: bool = False  # without the first of each sequence: the next token is predicted
    is_position: bool = False  # places in the sequence, those outside of it ignored
    weight: int | None = None  # which weights the classes have
    is_settled: bool = True  # False: this batch does not show whether it is shifted, and the count is the same

    @property
    def kind(self) -> tuple[Any, ...]:
        """Terms of one kind divide by the same count."""
        if self.is_position:
            return ("positions",)
        counted = self.counted
        return self.entry, self.is_shifted, counted.ignore_index, counted.reduction, counted.compares in CLASSES, self.weight

    @property
    def is_sum(self) -> bool:
        return self.counted.reduction == "sum"

    @property
    def counts_samples(self) -> bool:
        return self.counted.count is sequences

    @property
    def ignore_index(self) -> int | None:
        return self.counted.ignore_index

    @property
    def threshold(self) -> Threshold:
        return self.counted.threshold

    def of(self, batch: Mapping[str, Any]) -> Tensor:
        entry: Tensor = batch[self.entry]
        return entry[..., 1:] if self.is_shifted else entry

    def count(self, target: Tensor) -> Tensor | int:
        """What the mean over these targets divides by."""
        return target.numel() if self.counted.count is elements else self.counted.count((None, target))

    @classmethod
    def find(cls, call: LossCall, batch: Mapping[str, Any]) -> "Targeted | None":
        """The entry of a batch that a call has as its target; None where there is none, or where the count cannot be told."""
        entries = {name: entry for name, entry in batch.items() if isinstance(entry, Tensor) and entry.ndim}
        names = sorted(entries, key=lambda name: (name != "labels", "label" not in name))
        ordered = {name: entries[name] for name in names}
        counted, target = call.counted, call.target
        if counted.count is sequences:
            return cls("labels", counted) if "labels" in entries else None
        if counted.compares in CLASSES and not target.is_floating_point():
            return _find_classes(call, ordered)
        if counted.count is elements and (not isinstance(call.output, Tensor) or call.output.shape != target.shape):
            return None
        if counted.count is not elements and counted.compares not in CLASSES:
            return None
        fits = (name for name, entry in ordered.items() if _same(target, entry))
        if counted.count is not elements:  # the probabilities of classes are counted by their shape
            fits = (name for name in fits if entries[name].shape == target.shape)
        return next((cls(name, counted) for name in fits), None)


def _find_classes(call: LossCall, entries: Mapping[str, Tensor]) -> Targeted | None:
    counted, target = call.counted, call.target
    ignored = -100 if counted.ignore_index is None else counted.ignore_index
    weight = None if call.weight is None else id(call.weight)
    whole = {name: entry for name, entry in entries.items() if not entry.is_floating_point()}
    if call.output.ndim == 2 and ignored == call.output.shape[1]:
        clamped = (name for name, entry in whole.items() if _same(target, entry.clamp(0, ignored)))
        return next((Targeted(name, counted, is_position=True) for name in clamped), None)
    for matches in (_same, functools.partial(_same_kept, ignored)):
        for name, entry in whole.items():
            plain = matches(target, entry)
            shifted = entry.ndim > 1 and any(matches(target, one) for one in _shifted(entry, ignored))
            if plain or shifted:
                return Targeted(name, counted, is_shifted=shifted, weight=weight, is_settled=plain != shifted)
    return None


def _shifted(entry: Tensor, ignored: int) -> tuple[Tensor, Tensor]:
    """Without the first of each sequence; and with one that is ignored in place of it, at the end."""
    return entry[..., 1:], nn.functional.pad(entry[..., 1:], (0, 1), value=ignored)


def _same(target: Tensor, entry: Tensor) -> bool:
    return target.numel() == entry.numel() and bool((target.flatten() == entry.flatten().to(target)).all())


def _same_kept(ignored: int, target: Tensor, entry: Tensor) -> bool:
    """The same but for what is ignored: a model may put tokens of its own before a sequence."""
    kept, other = (one.flatten()[one.flatten() != ignored] for one in (target, entry))
    return bool(kept.numel()) and torch.equal(kept, other.to(kept))
