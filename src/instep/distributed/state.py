"""What is rank 0's: the tensors that a run begins with, and the buffers that evaluations see and checkpoints keep."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
import torch.distributed as dist
from torch import Tensor, nn

from instep.distributed.agreement import require_same
from instep.distributed.world import World
from instep.records import SavedTensors


def begin_alike(world: World, model: nn.Module) -> bool:
    """Give all processes the weights and buffers of rank 0; True where some had others. The models must be of one shape."""
    named = (*model.named_parameters(), *model.named_buffers())
    require_same(world, {"model": {name: f"{tensor.dtype}{tuple(tensor.shape)}" for name, tensor in named}})
    differs = take_from_first(tensor for _, tensor in named)
    return any(world.gather_objects(differs))


@torch.no_grad()
def take_from_first(tensors: Iterable[Tensor]) -> bool:
    """Give these tensors the values of rank 0, bit for bit; True where one of this process had another."""
    differs = False
    for tensor in tensors:
        if not tensor.numel():
            continue
        values = tensor.detach().clone(memory_format=torch.contiguous_format)
        own = _bytes(values).clone()
        dist.broadcast(_bytes(values), src=0)
        if not torch.equal(_bytes(values), own):
            differs = True
            tensor.copy_(values)
    return differs


@contextmanager
def buffers_of_first(*models: nn.Module) -> Iterator[None]:
    """Inside, the buffers are those of rank 0, so that all processes look at one model; afterwards everybody has their own."""
    buffers = [buffer for model in models for buffer in model.buffers()]
    own = SavedTensors(buffers)
    take_from_first(buffers)
    try:
        yield
    finally:
        own.put_back()


def _bytes(tensor: Tensor) -> Tensor:
    return tensor.reshape(-1).view(torch.uint8)
