"""Which way to exchange suits what one optimizer trains at present."""

from collections.abc import Callable
from operator import is_not
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from instep.distributed.interrupt import Stopping
from instep.distributed.turn import Sums, Turn
from instep.distributed.world import World

FLAT_AT_MOST_BYTES = 16_000_000  # of gradients; more of them are better exchanged while the backward goes on


class ChosenTurn:
    """The exchange of one optimizer: another one where it trains other parameters than in the update before.

    The choice depends on the parameters alone, not on what was trained before: a resumed run makes the same one.
    """

    def __init__(self, world: World, stopping: Stopping, *, batch_size: int, device: torch.device) -> None:
        self._world = world
        self._stopping = stopping
        self._batch_size = batch_size
        self._device = device
        self._parameters: list[Tensor] = []
        self._turn: Turn | None = None

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
        """Forward and backward where other processes have the rest of the batch, and the exchange with them."""
        trained = [p for group in optimizer.param_groups for p in group["params"] if p.requires_grad]
        if self._turn is None or len(trained) != len(self._parameters) or any(map(is_not, trained, self._parameters)):
            self._turn = None  # the old one lets go of its hooks first
            self._turn = self._choose(trained, sums.length)
            self._parameters = trained
        self._turn.backward(optimizer, sums, micro_batches, forward, go_back=go_back, stop_on_bad=stop_on_bad)

    def _choose(self, trained: list[Tensor], numbers: int) -> Turn:
        """In one message where the gradients are few and on the CPU, else in buckets."""
        given = trained, numbers, self._world, self._stopping
        if is_flat(trained):
            from instep.distributed.flat_turn import FlatTurn

            return FlatTurn(*given, batch_size=self._batch_size, device=self._device)
        from instep.distributed.bucket_turn import BucketTurn

        return BucketTurn(*given, batch_size=self._batch_size, device=self._device)


def is_flat(trained: list[Tensor]) -> bool:
    """Whether gradients of these parameters go in one message."""
    return all(p.is_cpu for p in trained) and sum(p.numel() * p.element_size() for p in trained) <= FLAT_AT_MOST_BYTES
