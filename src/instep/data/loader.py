"""The loader: from a source and a position to batches on the device.

It owns which places make up a batch and when the batch is fetched. Beginning at batch k of epoch e costs what batch 0 costs.
"""

import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from instep.data.order import Order
from instep.data.source import Position, Source
from instep.data.structure import map_columns

STRETCH = 8192  # places whose indices are computed at once: 0.3 ms


class Batch(NamedTuple):
    """The samples of one update (or of one step of an evaluation) and where they stand."""

    data: Any
    epoch: int
    index: int  # type: ignore[assignment]  # in its epoch
    samples: int
    indices: Tensor  # of the samples in the data set


class Loader:
    """Batches of a source, shuffled anew each epoch or in the data's own order."""

    def __init__(
        self, source: Source, *, batch_size: int, seed: int, device: torch.device, shuffle: bool, drop_last: bool = False
    ) -> None:
        self._source = source
        self._batch_size = batch_size
        self._seed = seed
        self._device = device
        self._shuffle = shuffle
        self.samples = len(source) - len(source) % batch_size if drop_last else len(source)  # in one epoch
        self.batches_per_epoch = -(-self.samples // batch_size)
        self.waited_s = 0.0  # time that the run has spent waiting for batches

    def batches(self, epoch: int, start: int = 0) -> Iterator[Batch]:
        """The batches of an epoch from the one with index `start` on."""
        batches = self._fetched(epoch, start)
        if self._device.type != "cpu":
            batches = self._sent_ahead(batches)
        clock = time.perf_counter
        begun = clock()
        for batch in batches:
            self.waited_s += clock() - begun
            yield batch
            begun = clock()

    def origin(self, indices: Tensor) -> Tensor:
        """The indices of samples in the data that the user passed, which may be more than this loader's."""
        return self._source.origin(indices)

    def _fetched(self, epoch: int, start: int) -> Iterator[Batch]:
        index, place = start, start * self._batch_size
        for indices in self._indices(epoch, place):
            data = self._source.fetch(indices, Position(self._seed, epoch, place))
            samples = len(indices)
            yield Batch(data, epoch, index, samples, indices)
            index += 1
            place += samples

    def _indices(self, epoch: int, place: int) -> Iterator[Tensor]:
        """The indices of each batch from a place on; they are computed for many batches at once and cut."""
        order = Order(len(self._source), seed=self._seed, epoch=epoch) if self._shuffle else None
        stretch = max(STRETCH // self._batch_size, 1) * self._batch_size
        for first in range(place, self.samples, stretch):
            last = min(first + stretch, self.samples)
            whole = torch.arange(first, last) if order is None else torch.from_numpy(order.slice(first, last).copy())
            yield from whole.split(self._batch_size)

    def _sent_ahead(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        """Batches on the device, one ahead: the copy of the next one goes on while this one is computed with."""
        ready: Batch | None = None
        for batch in batches:
            upcoming = batch._replace(data=map_columns(lambda column: sent(column, self._device), batch.data))
            if ready is not None:
                yield ready
            ready = upcoming
        if ready is not None:
            yield ready


def sent(column: Any, device: torch.device) -> Any:
    """A column on the device; a copy to CUDA is pinned and goes on in the background."""
    if not isinstance(column, Tensor):
        return column
    if device.type == "cuda" and column.device.type == "cpu":
        return column.pin_memory().to(device, non_blocking=True)
    return column.to(device)
