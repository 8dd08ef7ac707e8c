"""Processes: what one run asks of the processes that train it. For a single one every answer is the simple one."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from instep.data.batch_layout import BatchLayout
from instep.data.device import Placed, choose
from instep.data.share import Dealt, Part
from instep.distributed.dtensors import Shard
from instep.distributed.interrupt import Interrupt, Stopping
from instep.distributed.world import World
from instep.errors import DescriptionError, NonFiniteGradient, NonFiniteLoss

# What several processes do with one another is imported where there are several.
if TYPE_CHECKING:
    from instep.distributed.chosen_turn import ChosenTurn
    from instep.distributed.shard import Shares
    from instep.distributed.shard_turn import ShardTurn

# What may differ between the processes of a run.
_OWN = ("device", "threads", "machine", "git", "versions", "script", "modules", "attributes", "code")  # a model may hold its rank


def choose_device(world: World, device: str | torch.device) -> Placed:
    """Where this process computes, and why there."""
    if world.size == 1 or device != "auto":
        return choose(device)
    found = world.device()
    if found is None:
        return Placed(torch.device("cpu"), "torch finds no accelerator")
    return Placed(found, f"that of rank {world.rank}")


class Processes:
    """One run on one or several processes."""

    def __init__(self, world: World, device: torch.device, *, batch_size: int) -> None:
        self.world = world
        self._device = device
        self._batch_size = batch_size
        self._stopping = Stopping()
        self._is_compared = world.size == 1
        self._sharded: nn.Module | None = None  # the model, where each process holds a share of it

    @property
    def are_several(self) -> bool:
        return self.world.size > 1

    @property
    def are_sharded(self) -> bool:
        """Whether every call of the model is one of all processes."""
        return self._sharded is not None

    def prepare_model(self, model: nn.Module, *, sync_batchnorm: bool) -> tuple[nn.Module, list[str]]:
        """The model as all processes begin with it, and what should be said about that."""
        return (
            _prepare(self.world, model, sync_batchnorm=sync_batchnorm, device=self._device) if self.are_several else (model, [])
        )

    def shard_model(self, model: nn.Module, shard: Shard) -> list[str]:
        """Leave each process its share of the model where that was asked for; says how that was done."""
        if not shard:
            return []
        if not self.are_several:
            return [f"shard={shard!r} has nothing to share with one process: the model stays whole"]
        from instep.distributed.shard import shard_model

        self._sharded = model
        return shard_model(self.world, model, shard, self._device)

    def shares(self, model: nn.Module) -> "Shares | None":
        """Which rows of a checkpoint are this process's; None where it holds all of them."""
        if not self.are_sharded:
            return None
        from instep.distributed.shard import Shares

        return Shares(self.world, model)

    def fill_up(self, micro_batches: Iterable[Any], part: Part, samples: int, layout: BatchLayout) -> Iterable[Any]:
        """The micro-batches of a batch, and what stands in for those that others have more."""
        if not self.are_sharded:
            return micro_batches
        from instep.distributed.stand_in import filled_up

        return filled_up(self.world, list(micro_batches), part, samples, self._device, layout)

    @property
    def dealt(self) -> Dealt | None:
        """How the batches of an evaluation are shared out; None where this process has all of them."""
        return Dealt(self.world.rank, self.world.size) if self.are_several else None

    def turn(self) -> "ChosenTurn | ShardTurn | None":
        """The exchange of one optimizer; None where there is nobody to exchange with."""
        if not self.are_several:
            return None
        if self._sharded is not None:
            from instep.distributed.shard_turn import ShardTurn

            return ShardTurn(self._sharded, self.world, self._stopping, batch_size=self._batch_size, device=self._device)
        from instep.distributed.chosen_turn import ChosenTurn

        return ChosenTurn(self.world, self._stopping, batch_size=self._batch_size, device=self._device)

    def interrupt(self) -> Interrupt:
        """Notes the signals that ask the run to stop; all processes stop after the same update."""
        return self._stopping.interrupt() if self.are_several else Interrupt()

    def compare(self, describe: Callable[[], Mapping[str, Any]]) -> None:
        """Once, before the first update: that all processes train the same thing on the same data."""
        if not self._is_compared:
            from instep.distributed.agreement import require_same

            require_same(self.world, {name: part for name, part in describe().items() if name not in _OWN})
            self._is_compared = True

    def explain(self, error: BaseException, step: int) -> BaseException:
        """What to raise for an error; the others are told, unless all of them have it."""
        explained = self.world.explain(error, step=step)
        if not isinstance(error, NonFiniteLoss | NonFiniteGradient):
            self.world.fail(explained)
        return explained

    def share_buffers(self, *models: nn.Module) -> AbstractContextManager[None]:
        """Inside, all processes look at one model: buffers such as batch norm's statistics are their own while they train."""
        if not self.are_several:
            return nullcontext()
        from instep.distributed.state import buffers_of_first

        return buffers_of_first(*models)

    def take_from_rank0(self, tensors: Iterable[Tensor]) -> None:
        """Give these tensors the values of rank 0."""
        if self.are_several:
            from instep.distributed.state import take_from_first

            take_from_first(tensors)


def check_shard(shard: Shard, optimizer: Any, model: nn.Module, refused: Mapping[str, Any]) -> None:
    """That what was asked for goes together with `shard=`, where that was."""
    if shard:
        from instep.distributed.shard import require_shardable

        require_shardable(shard, optimizer, model, refused)


def _prepare(world: World, model: nn.Module, *, sync_batchnorm: bool, device: torch.device) -> tuple[nn.Module, list[str]]:
    from instep.distributed.state import begin_alike

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
