"""A turn: how the gradients of one optimizer are exchanged with the same optimizer on the other processes, once an update.

DistributedDataParallel does it, while the last backward is still going on. It is put round a module that holds the parameters and
nothing else, and calls whatever it is given: so an objective gets the user's own model, with all its methods, and each of several
players has an exchange of its own. Earlier micro-batches are not told to it at all.

DistributedDataParallel waits for every parameter on every process. Those that one has no gradient for (its part of the batch is
empty, nothing in it counts, a branch was not taken) go backward with zeros there: nobody waits for ever, nothing is skipped.
"""

from collections.abc import Callable
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer

from instep.distributed.shared import LENGTH, SharedSums
from instep.distributed.stopping import Stopping
from instep.distributed.world import World
from instep.errors import NonFiniteLoss

T = TypeVar("T")


class Turn:
    """The exchange of one player."""

    def __init__(self, world: World, stopping: Stopping, *, reference: float, device: torch.device) -> None:
        self._world = world
        self._stopping = stopping
        self._reference = reference
        self._device = device
        self._parameters: list[Tensor] = []
        self._versions: list[int | None] = []  # of the gradients before the last backward
        self._wrapped: DistributedDataParallel | None = None

    def begin(self, optimizer: Optimizer) -> SharedSums:
        """Before the first forward of a cycle; what is trained may have changed since the last one."""
        trained = [p for group in optimizer.param_groups for p in group["params"] if p.requires_grad]
        if self._wrapped is None or len(trained) != len(self._parameters) or any(map(_is_other, trained, self._parameters)):
            self._wrapped = None  # the old one lets go of its hooks first
            self._parameters = trained
            self._wrapped = DistributedDataParallel(_Parameters(trained), init_sync=False)
        return SharedSums(self._reference, self._world.size)

    def last(self, forward: Callable[[], T]) -> T:
        """The forward of the last micro-batch: the gradients of the backward after it are exchanged."""
        assert self._wrapped is not None
        self._versions = [None if p.grad is None else p.grad._version for p in self._parameters]
        given: T = self._wrapped(forward)
        return given

    def without_gradient(self) -> list[Tensor]:
        """The parameters that the last backward did not reach."""
        return [
            parameter
            for parameter, version in zip(self._parameters, self._versions, strict=True)
            if parameter.grad is None or parameter.grad._version == version
        ]

    def exchange(self, sums: SharedSums, lacking: set[Tensor], *, stop_on_bad: bool) -> None:
        """Counts, losses and flags of all processes: one all_reduce an update. `lacking` have no gradient here at all."""
        told = torch.cat([sums.told(self._device), self._stopping.told(bool(lacking)).to(self._device)])
        self._world.summed(told)
        sums.take(told[:LENGTH], self._world.size)
        if self._stopping.take(told[LENGTH:]):
            self._leave_unused(lacking)
        if stop_on_bad and sums.bad_on_host:
            raise self._not_finite(sums)

    def _leave_unused(self, lacking: set[Tensor]) -> None:
        """A parameter that no process has a gradient for keeps none: an optimizer leaves it alone, as on one process."""
        used = torch.tensor([p not in lacking for p in self._parameters], dtype=torch.int32, device=self._device)
        dist.all_reduce(used, dist.ReduceOp.MAX)
        for parameter, is_used in zip(self._parameters, used.tolist(), strict=True):
            if not is_used:
                parameter.grad = None

    def _not_finite(self, sums: SharedSums) -> NonFiniteLoss:
        here = sums.nonfinite()
        by_rank = self._world.of_all(here)
        if here is not None:
            return NonFiniteLoss(f"the loss of a micro-batch of rank {self._world.rank} is {here}; no step was made.")
        where = ", ".join(f"{value} on rank {rank}" for rank, value in enumerate(by_rank) if value is not None)
        return NonFiniteLoss(f"the loss is {where}, where its samples are named; no step was made.", elsewhere=True)


class _Parameters(nn.Module):
    """Parameters, and whatever is called while they train."""

    def __init__(self, parameters: list[Tensor]) -> None:
        super().__init__()
        for i, parameter in enumerate(parameters):
            self.register_parameter(str(i), parameter)  # type: ignore[arg-type]

    def forward(self, call: Callable[[], T]) -> T:
        return call()


def _is_other(one: Tensor, other: Tensor) -> bool:
    return one is not other
