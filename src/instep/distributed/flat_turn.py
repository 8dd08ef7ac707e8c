"""Gradients in one flat tensor: they are copied into it after the last backward, and one message adds them up.

For models whose gradients are few this takes less than DistributedDataParallel's hooks, buckets and copies, which pay where a
long backward hides the exchange. Beside the gradients the tensor has, for each parameter, whether this process has a gradient
for it (it sends zeros where not), and the counts, losses and flags. Gradients of several dtypes have a flat tensor for each.

A flat tensor is made anew in every update, and the gradients are views of it: whoever keeps a gradient keeps its values. Where
something stands in it depends on the parameters alone, so that the numbers are added up in the same order in a run that is
resumed.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from instep.distributed.interrupt import Stopping
from instep.distributed.packed_numbers import dtype_for, pack_floats, packed_length, unpack_floats
from instep.distributed.turn import FLAGS, Sums, Turn
from instep.distributed.world import World
from instep.errors import DescriptionError

Place = tuple[tuple[int, ...], tuple[int, ...], int]  # shape, strides and offset of a gradient


class Layout(NamedTuple):
    """What stands where in the flat tensor of one dtype."""

    dtype: torch.dtype
    parameters: list[Tensor]
    places: list[Place]
    gradients: int  # elements; what the processes tell each other comes after them
    length: int


class FlatTurn(Turn):
    """The exchange of these parameters, which are on the CPU, in one message."""

    def __init__(
        self,
        parameters: list[Tensor],
        numbers: int,
        world: World,
        stopping: Stopping,
        *,
        batch_size: int,
        device: torch.device,
    ) -> None:
        super().__init__(world, stopping, batch_size=batch_size, device=device)
        self._divisor = 1  # the exchange gives the sum
        self._parameters = parameters
        told = dtype_for(parameters)
        dtypes = sorted({told, *(p.dtype for p in parameters)}, key=lambda dtype: (dtype != told, str(dtype)))
        beside = len(parameters) + packed_length(numbers + FLAGS, told)
        of_each = [[p for p in parameters if p.dtype == dtype] for dtype in dtypes]
        self._first, *self._others = [
            lay_out(dtype, own, beside if dtype == told else 0) for dtype, own in zip(dtypes, of_each, strict=True)
        ]
        self._found_users: list[float] = []

    def _backward(
        self, sums: Sums, micro_batches: list[Any], forward: Callable[[Any], Any], go_back: Callable[[Tensor], None]
    ) -> set[Tensor]:
        for micro_batch in micro_batches:
            value = sums.add(forward(micro_batch))
            if value is not None:
                go_back(value)
        return {parameter for parameter in self._parameters if parameter.grad is None}

    def _add_up(self, sums: Sums, own: list[float], lacking: set[Tensor]) -> tuple[list[float], list[float]]:
        """The gradients, numbers and flags of all processes, added up."""
        numbers = sums.known_numbers()
        numbers = sums.numbers(self._device).tolist() if numbers is None else numbers
        has = [float(p not in lacking) for p in self._parameters] if lacking else [1.0] * len(self._parameters)
        flat, start = fill(self._first), self._first.gradients
        flat[start:] = torch.tensor([*has, *pack_floats([*numbers, *own], flat.dtype)], dtype=flat.dtype)
        for other in [flat, *map(fill, self._others)]:
            dist.all_reduce(other)
        told: list[float] = flat[start:].tolist()
        self._found_users = told[: len(has)]
        totals = unpack_floats(told[len(has) :], flat.dtype)
        return totals[: sums.length], totals[sums.length :]

    def _users(self, lacking: set[Tensor]) -> list[float]:
        return self._found_users


def lay_out(dtype: torch.dtype, parameters: list[Tensor], beside: int) -> Layout:
    """One after the other, with the strides that gradients of these parameters have; `beside` elements come after them."""
    places: list[Place] = []
    offset = 0
    for parameter in parameters:
        places.append((tuple(parameter.shape), torch.empty_like(parameter, device="meta").stride(), offset))
        offset += parameter.numel()
    return Layout(dtype, parameters, places, offset, offset + beside)


def fill(layout: Layout) -> Tensor:
    """A new flat tensor with the gradients, which from now on are views of it."""
    flat = torch.empty(layout.length, dtype=layout.dtype)
    views = [flat.as_strided(*place) for place in layout.places]
    gradients = [parameter.grad for parameter in layout.parameters]
    pairs = [(view, gradient) for view, gradient in zip(views, gradients, strict=True) if gradient is not None]
    if any(gradient.layout is not torch.strided for _, gradient in pairs):
        raise DescriptionError(
            "sparse gradients (sparse=True of an embedding) cannot be exchanged between processes; leave it out."
        )
    with torch.no_grad():
        if len(pairs) < len(views):
            flat[: layout.gradients].zero_()
        if pairs:
            torch._foreach_copy_([view for view, _ in pairs], [gradient for _, gradient in pairs])
    for parameter, view in zip(layout.parameters, views, strict=True):
        parameter.grad = view
    return flat
