"""Batching: which samples make up each batch of an epoch, from any batch on."""

from collections.abc import Iterator

import torch
from torch import Tensor

from instep.data.loading.transfer import Request
from instep.data.position import Position, Source
from instep.data.sampler import Sampler
from instep.data.share import Share
from instep.errors import DescriptionError
from instep.text import plural

STRETCH = 8192  # places whose indices are computed at once: 0.3 ms


class Batching:
    """The places of an epoch cut into batches; the last one is smaller, or left out with `drop_last`."""

    def __init__(
        self, source: Source, sampler: Sampler, *, batch_size: int, seed: int, drop_last: bool, share: Share | None = None
    ) -> None:
        self._source = source
        self._sampler = sampler
        self._seed = seed
        self.batch_size = batch_size
        self.share = share  # of every batch, where several processes load it
        places = sampler.samples
        if drop_last and places < batch_size:
            raise DescriptionError(
                f"drop_last=True leaves nothing of {plural(places, 'sample')} of {source.name} in batches of {batch_size}; "
                "use a smaller batch_size."
            )
        self.samples = places - places % batch_size if drop_last else places  # in one epoch
        self.batches_per_epoch = -(-self.samples // batch_size)

    def indices(self, epoch: int, place: int) -> Iterator[Tensor]:
        """The indices of each batch from a place on; they are computed for many batches at once and cut."""
        self._source.check()
        size = self.batch_size
        stretch = max(STRETCH // size, 1) * size
        for first in range(place, self.samples, stretch):
            last = min(first + stretch, self.samples)
            yield from torch.from_numpy(self._sampler.slice(self._seed, epoch, first, last)).split(size)

    def requests(self, epoch: int, start: int) -> Iterator[Request]:
        """The same from a batch on, as it is sent to workers: this process's share of each."""
        place = start * self.batch_size
        for index, indices in enumerate(self.indices(epoch, place), start):
            first, last = (0, len(indices)) if self.share is None else self.share.part(index, len(indices))
            yield Request(index, Position(self._seed, epoch, place + first), indices[first:last].numpy(), len(indices))
            place += len(indices)
