"""A turn: how the gradients of one optimizer are exchanged with the same optimizer on the other processes, once an update.

Counts, losses and flags travel in the same message as gradients: processes wait for each other once an update, not twice. Here is
what all ways to exchange share; `flat_turn`, `bucket_turn` and `shard_turn` are the ways, `chosen_turn` chooses.
"""

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any, Protocol

import torch
import torch.distributed as dist
from torch import Tensor
from torch.optim import Optimizer

from instep.distributed.interrupt import Stopping
from instep.distributed.world import World
from instep.errors import NonFiniteLoss

FLAGS = 5  # a gradient is lacking; two signals; losses have parts; some of them are new


class Sums(Protocol):
    """What a process adds up over its micro-batches, and takes over from all of them."""

    bad_on_host: bool
    length: int  # of its numbers

    def begin(self, reference: float, divisor: int) -> None: ...
    def add(self, loss: Any) -> Tensor | None: ...
    def numbers(self, device: torch.device) -> Tensor: ...
    def known_numbers(self) -> list[float] | None: ...
    def take(self, totals: Tensor | list[float], pieces_at_most: int) -> None: ...
    def nonfinite(self) -> float | None: ...

    @property
    def part_names(self) -> tuple[str, ...]: ...
    def part_numbers(self, names: Sequence[str], device: torch.device) -> Tensor: ...
    def take_parts(self, names: Sequence[str], told: Tensor) -> None: ...


class Turn:
    """The exchange of one optimizer."""

    def __init__(self, world: World, stopping: Stopping, *, batch_size: int, device: torch.device) -> None:
        self._world = world
        self._stopping = stopping
        self._batch_size = batch_size
        self._divisor = world.size  # what the sum of all gradients is divided by: the exchange gives their mean
        self._device = device
        self._parameters: list[Tensor] = []
        self._part_names: tuple[str, ...] = ()  # of the losses, as all processes know them
        self._flags_apart = device.type != "cpu" and world.reaches_hosts

    def backward(
        self,
        optimizer: Optimizer,
        sums: Sums,
        micro_batches: list[Any],
        forward: Callable[[Any], Any],
        *,
        go_back: Callable[[Tensor], None],
        stop_on_bad: bool,
    ) -> None:
        """Forward and backward where other processes have the rest of the batch, and the exchange with them.

        A process that has nothing to go back through takes part with zeros: the others wait for it.
        """
        self._begin(optimizer)
        # A batch of the usual size then has gradients that need no factor at the end.
        sums.begin(self._batch_size / self._divisor, self._divisor)
        lacking = self._backward(sums, micro_batches, forward, go_back)
        self._exchange(sums, lacking, stop_on_bad=stop_on_bad)

    def _begin(self, optimizer: Optimizer) -> None:
        """Before the first forward of a cycle."""

    def _backward(
        self, sums: Sums, micro_batches: list[Any], forward: Callable[[Any], Any], go_back: Callable[[Tensor], None]
    ) -> set[Tensor]:
        """All micro-batches; returns the parameters that have no gradient on this process."""
        raise NotImplementedError

    def _exchange(self, sums: Sums, lacking: set[Tensor], *, stop_on_bad: bool) -> None:
        """Counts, losses and flags of all processes, once an update; ends the exchange of the gradients."""
        own = [*self._stopping.flags(bool(lacking)), *self._part_flags(sums)]
        numbers, flags = self._add_up(sums, own, lacking)
        sums.take(numbers, self._world.size)
        *stopping, with_parts, with_new_parts = flags
        if self._stopping.take(stopping):
            self._leave_unused(lacking)
        if with_parts:
            self._exchange_parts(sums, are_new=bool(with_new_parts))
        if stop_on_bad and sums.bad_on_host:
            raise self._not_finite(sums)

    def _add_up(self, sums: Sums, own: list[float], lacking: set[Tensor]) -> tuple[Tensor | list[float], list[float]]:
        """The numbers and flags of all processes, added up.

        On an accelerator the flags, which the host knows and has to know, go between the hosts: nobody waits for the device.
        """
        numbers, flags = sums.numbers(self._device), torch.tensor(own, dtype=torch.float64)
        if self._flags_apart:
            numbers = self._sum(numbers)
            self._world.sum(flags)
        else:
            totals = self._sum(torch.cat([numbers, flags.to(self._device)]))
            numbers, flags = totals[: sums.length], totals[sums.length :]
        return numbers, flags.tolist()

    def _sum(self, numbers: Tensor) -> Tensor:
        """The sums over all processes."""
        return self._world.sum(numbers)

    def _part_flags(self, sums: Sums) -> tuple[float, float]:
        """Whether losses of this process have parts, and ones that not all processes know of."""
        names = sums.part_names
        return (1.0, float(not set(names) <= set(self._part_names))) if names else (0.0, 0.0)

    def _exchange_parts(self, sums: Sums, *, are_new: bool) -> None:
        """The parts of the losses of all processes; only runs that have some come here."""
        if are_new:
            self._part_names = tuple(sorted({*self._part_names, *chain(*self._world.gather_objects(sums.part_names))}))
        sums.take_parts(self._part_names, self._world.sum(sums.part_numbers(self._part_names, self._device)))

    def _leave_unused(self, lacking: set[Tensor]) -> None:
        """A parameter that no process has a gradient for keeps none: an optimizer leaves it alone, as on one process."""
        for parameter, processes in zip(self._parameters, self._users(lacking), strict=True):
            if not processes:
                parameter.grad = None

    def _users(self, lacking: set[Tensor]) -> list[float]:
        """How many processes have a gradient, for each parameter; a message of its own, which is seldom needed."""
        used = torch.tensor([p not in lacking for p in self._parameters], dtype=torch.int32, device=self._device)
        dist.all_reduce(used)
        users: list[float] = used.tolist()
        return users

    def _not_finite(self, sums: Sums) -> NonFiniteLoss:
        here = sums.nonfinite()
        by_rank = self._world.gather_objects(here)
        if here is not None:
            return NonFiniteLoss(f"the loss of a micro-batch of rank {self._world.rank} is {here}; no step was made.")
        where = ", ".join(f"{value} on rank {rank}" for rank, value in enumerate(by_rank) if value is not None)
        return NonFiniteLoss(f"the loss is {where}, where its samples are named; no step was made.", elsewhere=True)
