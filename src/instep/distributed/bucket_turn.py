"""Gradients in buckets: DistributedDataParallel exchanges them while the last backward is still going on.

It is put round a module that holds the parameters and nothing else, and calls whatever it is given: so an objective gets the
user's own model, with all its methods, and each of several objectives has an exchange of its own. It knows nothing of the earlier
micro-batches.

Counts, losses and flags travel as the gradient of one more parameter, in the same message as other gradients.

DistributedDataParallel waits for every parameter on every process. Those that one has no gradient for (its part of the batch is
empty, nothing in it counts, a branch was not taken) go backward with zeros there: nobody waits for ever, nothing is skipped.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from instep.distributed.interrupt import Stopping
from instep.distributed.packed_numbers import dtype_for, pack, packed_length, unpack
from instep.distributed.turn import FLAGS, Sums, Turn
from instep.distributed.world import World

T = TypeVar("T")


class BucketTurn(Turn):
    """The exchange of these parameters, by DistributedDataParallel."""

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
        self._parameters = parameters
        self._missing: list[Tensor] = []  # which the last backward did not reach, so that the others wait for them
        dtype = dtype_for(parameters)
        length = packed_length(numbers + (0 if self._flags_apart else FLAGS), dtype)
        self._told = nn.Parameter(torch.zeros(length, dtype=dtype, device=device))  # its gradient is what they tell each other
        self._wrapped = DistributedDataParallel(_Parameters([self._told, *parameters]), init_sync=False)
        self._settle_groups()

    def _settle_groups(self) -> None:
        """A backward of zeros, after which DistributedDataParallel groups the gradients once and for all.

        How they are grouped decides the order in which three or more are added. After an update of the run it would be another
        one than in the first update, and a run that is resumed begins with a first update.
        """
        gradients = [parameter.grad for parameter in self._parameters]
        for parameter in self._parameters:
            parameter.grad = None  # what is there already is not for the others
        self._wrapped(lambda: None)
        last_first = [*self._parameters[::-1], self._told]
        torch.autograd.backward(last_first, [torch.zeros_like(parameter) for parameter in last_first])
        self._told.grad = None
        for parameter, gradient in zip(self._parameters, gradients, strict=True):
            parameter.grad = gradient

    def _backward(
        self, sums: Sums, micro_batches: list[Any], forward: Callable[[Any], Any], go_back: Callable[[Tensor], None]
    ) -> set[Tensor]:
        """All micro-batches; the gradients are exchanged from the last backward on."""
        for micro_batch in micro_batches[:-1]:
            value = sums.add(forward(micro_batch))
            if value is not None:
                go_back(value)
        versions = [None if p.grad is None else p.grad._version for p in self._parameters]
        loss = self._wrapped(lambda: forward(micro_batches[-1]) if micro_batches else None)
        value = None if loss is None else sums.add(loss)
        if value is not None:
            go_back(value)
        self._missing = [
            p for p, version in zip(self._parameters, versions, strict=True) if p.grad is None or p.grad._version == version
        ]
        return {parameter for parameter in self._missing if parameter.grad is None}

    def _sum(self, numbers: Tensor) -> Tensor:
        """The sums over all processes; ends the exchange of the gradients."""
        missing, self._missing = self._missing, []
        zeros = [torch.zeros_like(parameter) for parameter in missing]
        own = pack(numbers, self._told.dtype) * self._divisor  # their mean is the sum
        torch.autograd.backward([*missing, self._told], [*zeros, own])
        told, self._told.grad = self._told.grad, None
        assert told is not None
        return unpack(told, self._divisor)


class _Parameters(nn.Module):
    """Parameters, and whatever is called while they train."""

    def __init__(self, parameters: list[Tensor]) -> None:
        super().__init__()
        for i, parameter in enumerate(parameters):
            self.register_parameter(str(i), parameter)  # type: ignore[arg-type]

    def forward(self, call: Callable[[], T]) -> T:
        return call()
