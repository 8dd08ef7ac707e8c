"""Spread: what a Trainer asks of its world, in one place. A run of one process has none."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from instep.data.device import Placed
from instep.data.share import Dealt, Part
from instep.distributed.agreement import require_same
from instep.distributed.shard import Shard, Shares, shard_model
from instep.distributed.stand_in import filled_up
from instep.distributed.state import begin_alike
from instep.distributed.stopping import AgreedInterrupt, Stopping
from instep.distributed.turn import ShardTurn, Turn
from instep.distributed.world import World
from instep.errors import DescriptionError, NonFiniteGradient, NonFiniteLoss

T = TypeVar("T")
# What may differ between the processes of a run.
_OWN = ("device", "threads", "git", "versions", "script")


class Spread:
    """One run on several processes."""

    def __init__(self, world: World, device: torch.device, *, batch_size: int) -> None:
        self.world = world
        self._device = device
        self._reference = batch_size / world.size
        self._stopping = Stopping()
        self._is_compared = False
        self._sharded: nn.Module | None = None  # the model, where each process holds a share of it

    @property
    def is_sharded(self) -> bool:
        """Whether every call of the model is one of all processes."""
        return self._sharded is not None

    def shard(self, model: nn.Module, shard: Shard) -> list[str]:
        """Leave each process its share of the model; says how that was done."""
        self._sharded = model
        return shard_model(self.world, model, shard, self._device)

    def shares(self, model: nn.Module) -> Shares | None:
        """Which rows of a checkpoint are this process's; None where it holds all of them."""
        return Shares(self.world, model) if self.is_sharded else None

    def filled_up(self, micro_batches: Iterable[Any], part: Part, samples: int) -> Iterable[Any]:
        """The micro-batches of a batch, and what stands in for those that others have more."""
        return filled_up(self.world, list(micro_batches), part, samples, self._device) if self.is_sharded else micro_batches

    @property
    def dealt(self) -> Dealt:
        """How the batches of an evaluation are shared out."""
        return Dealt(self.world.rank, self.world.size)

    def turn(self) -> Turn:
        """The exchange of one player."""
        if self._sharded is not None:
            return ShardTurn(self._sharded, self.world, self._stopping, reference=self._reference, device=self._device)
        return Turn(self.world, self._stopping, reference=self._reference, device=self._device)

    def interrupt(self) -> AgreedInterrupt:
        return self._stopping.interrupt()

    def compare(self, describe: Callable[[], Mapping[str, Any]]) -> None:
        """Once, before the first update: that all processes train the same thing on the same data."""
        if not self._is_compared:
            require_same(self.world, {name: part for name, part in describe().items() if name not in _OWN})
            self._is_compared = True

    def failed(self, error: BaseException, step: int) -> BaseException:
        """What to raise for an error; the others are told, unless all of them have it."""
        explained = self.world.explained(error, step=step)
        if not isinstance(error, NonFiniteLoss | NonFiniteGradient):
            self.world.fail(explained)
        return explained


def first_does(world: World | None, do: Callable[[], T]) -> T:
    """Rank 0 does it, and all have what came of it; alone, it is simply done."""
    return do() if world is None else world.done_by_first(do)


def placed_in(world: World) -> Placed:
    """The device of one process of several, and why."""
    device = world.device()
    if device is None:
        return Placed(torch.device("cpu"), "torch finds no accelerator")
    return Placed(device, f"that of rank {world.rank}")


def prepared(world: World, model: nn.Module, *, sync_batchnorm: bool, device: torch.device) -> tuple[nn.Module, list[str]]:
    """The model as all processes begin with it, and what should be said about that."""
    notes = []
    if any(isinstance(module, nn.Embedding | nn.EmbeddingBag) and module.sparse for module in model.modules()):
        raise DescriptionError(
            "sparse gradients (sparse=True of an embedding) cannot be exchanged between processes; leave it out."
        )
    if begin_alike(world, model):
        notes.append("the processes began with other weights; all have those of rank 0 now (seed before the model is made)")
    norms = [module for module in model.modules() if isinstance(module, _BatchNorm) and not isinstance(module, nn.SyncBatchNorm)]
    if sync_batchnorm:
        if norms and device.type == "cpu":
            raise DescriptionError("sync_batchnorm=True needs an accelerator: torch's SyncBatchNorm does not run on the CPU.")
        model = nn.SyncBatchNorm.convert_sync_batchnorm(model)
    elif any(module.training for module in norms):
        notes.append(
            "BatchNorm takes the statistics of each process's own micro-batches; sync_batchnorm=True takes them over all"
        )
    return model, notes
