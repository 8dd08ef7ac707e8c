"""Stand-ins: what a process computes with where it has no part of its own, so that all call a sharded model equally often.

Every forward and backward of a sharded model is a piece of work of all processes. One that has fewer micro-batches than rank 0
(which never has fewer than another) gets a few samples of rank 0's, goes through the model with them, and adds nothing.
"""

import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch

from instep.data.batch_layout import BatchLayout
from instep.data.loading.loader import Batch, sent_batch
from instep.data.share import Part
from instep.distributed.world import World

_SAMPLES = 2  # BatchNorm takes no single one


class StandIn(NamedTuple):
    """A micro-batch that counts for nothing."""

    offset: int
    data: Any


def filled_up(
    world: World, micro_batches: list[Any], part: Part, samples: int, device: torch.device, layout: BatchLayout
) -> list[Any]:
    """As many micro-batches of a batch as rank 0 has."""
    most, fewest = (len(part._replace(rank=rank).spans(samples)) for rank in (0, part.processes - 1))
    if most == fewest:
        return micro_batches
    data = _of_first(world, micro_batches[0][1] if world.is_first else None, device, layout)
    return [*micro_batches, *[StandIn(0, data)] * (most - len(micro_batches))]


def in_rounds(batches: Iterator[Batch], world: World, device: torch.device, layout: BatchLayout) -> Iterator[Batch]:
    """The batches that were dealt to this process; where the last round has none for it, one that has no samples of its own."""
    while group := list(itertools.islice(batches, world.size)):
        own = next((batch for batch in group if len(batch.indices)), None)
        if len(group) < world.size:
            data = _of_first(world, own.data if own is not None and world.is_first else None, device, layout)
            own = own or group[0]._replace(data=data, samples=0, indices=torch.zeros(1, dtype=torch.int64))
        assert own is not None
        yield own


def _of_first(world: World, data: Any, device: torch.device, layout: BatchLayout) -> Any:
    """The first samples of rank 0's data."""
    few = sent_batch(layout.piece(data, 0, _SAMPLES), torch.device("cpu")) if world.is_first else None
    return sent_batch(world.broadcast_object(few), device)
