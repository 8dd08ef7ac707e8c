"""Weights that are normalised over the samples of a batch, and then summed over something else: a softmax over the wrong axis.

Attention over time gives each step of a sequence a weight and sums over the steps. Where the weights sum to 1 over the batch, and
the sum runs over time, two axes were mixed up. Weights over the samples that are summed over the samples are meant.
"""

from collections.abc import Callable
from typing import Any

from torch import Tensor

from instep.doctor.mixing import Mixing, Record
from instep.doctor.sites import Locator

NEAR = 6  # operations from the one that mixes to the weights: a difference, its exponential, a sum, a quotient
ALIKE = frozenset({
    "squeeze", "unsqueeze", "transpose", "permute", "movedim", "swapaxes", "view", "reshape", "contiguous", "clone", "expand",
    "expand_as", "t", "mT", "T", "to", "float", "type_as", "dropout", "masked_fill", "flatten", "get",
})  # fmt: skip
PRODUCTS = frozenset({"mul", "multiply", "rmul", "imul"})
SUMS = frozenset({"sum", "mean"})
MATRICES = frozenset({"matmul", "bmm", "rmatmul", "mm"})
Layout = tuple[int, ...]  # the shape of the weights, inside a product too


class _Flow(Record):
    """Keeps what every operation was given, too."""

    def __init__(self, locator: Locator) -> None:
        super().__init__(locator)
        self.steps: list[tuple[int, str, tuple[Any, ...], dict[str, Any], Any]] = []  # place among `kept`, name, given, result

    def __torch_function__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        before = len(self.kept)
        result = super().__torch_function__(func, types, args, kwargs)
        name = getattr(func, "__name__", "").strip("_")
        self.steps.append((before if len(self.kept) > before else -1, name, args, kwargs or {}, result))
        return result


def find_weights(forward: Callable[[], Any], mixing: Mixing, batch: int, locator: Locator) -> tuple[Mixing, Layout] | None:
    """The operation that makes such weights, and their shape; None where there are none, or they are meant."""
    with _Flow(locator) as flow:
        forward()
    start = next((place for place, step in enumerate(flow.steps) if step[0] == mixing.index), len(flow.steps))
    for place in range(start, min(start + NEAR, len(flow.steps))):
        index, name, _, _, weights = flow.steps[place]
        if index >= 0 and isinstance(weights, Tensor) and is_over_samples(weights, batch):
            wrong = _is_summed_elsewhere(flow.steps[place + 1 :], weights, batch)
            return (Mixing(name, flow.kept[index][1], index), tuple(weights.shape)) if wrong else None
    return None


def is_over_samples(weights: Tensor, batch: int) -> bool:
    """Whether numbers are never negative and sum to 1 over the first axis, that of the batch, at several places."""
    shape = weights.shape
    if not weights.is_floating_point() or weights.dim() < 2 or shape[0] != batch or batch in shape[1:] or max(shape[1:]) < 2:
        return False
    return bool((weights >= 0).all()) and bool(((weights.sum(0) - 1).abs() < 1e-3).all())


def _is_summed_elsewhere(steps: list[Any], weights: Tensor, batch: int) -> bool:
    """Whether the first sum over the weights, or over something times the weights, leaves the samples apart."""
    layouts: dict[int, Layout] = {id(weights): tuple(weights.shape)}
    for _, name, args, kwargs, result in steps:
        given = [arg for arg in (*args, *kwargs.values()) if isinstance(arg, Tensor) and id(arg) in layouts]
        if name == "einsum":
            given = [arg for arg in _operands(args) if id(arg) in layouts]
        if not given or not isinstance(result, Tensor):
            continue
        source, layout = given[0], layouts[id(given[0])]
        alone = tuple(source.shape) == layout
        if name in PRODUCTS:
            layouts[id(result)] = (1,) * (result.dim() - len(layout)) + layout
        elif name in ALIKE and alone and list(result.shape).count(batch) == 1:
            layouts[id(result)] = tuple(result.shape)
        else:
            axes = _summed_axes(name, args, kwargs, source, layout, alone)
            if axes is not None:
                return layout.index(batch) not in axes and any(layout[axis] > 1 for axis in axes)
    return False


def _summed_axes(
    name: str, args: tuple[Any, ...], kwargs: dict[str, Any], source: Tensor, layout: Layout, alone: bool
) -> list[int] | None:
    """The axes over which an operation sums; None where it does something else."""
    dims = source.dim()
    if name in SUMS:
        dim = kwargs.get("dim", args[1] if len(args) > 1 else None)
        chosen = [dim] if isinstance(dim, int) else list(dim) if isinstance(dim, (tuple, list)) else range(dims)
        return [axis % dims for axis in chosen]
    if name in MATRICES and alone and dims >= 2:
        left = (args[0] is source) != (name == "rmatmul")
        return [dims - 1 if left else dims - 2]
    if name == "einsum" and alone and isinstance(args[0], str) and "." not in args[0]:
        inputs, _, output = args[0].replace(" ", "").partition("->")
        letters = inputs.split(",")[next(place for place, each in enumerate(_operands(args)) if each is source)]
        return [axis for axis, letter in enumerate(letters) if letter not in output]
    return None


def _operands(args: tuple[Any, ...]) -> list[Any]:
    """The tensors of an einsum, one by one or in a list."""
    return list(args[1]) if len(args) == 2 and isinstance(args[1], (tuple, list)) else list(args[1:])
