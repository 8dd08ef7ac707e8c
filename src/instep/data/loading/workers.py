"""Workers: processes that load batches ahead. Torch's workers underneath; the order and the position are ours.

A request names the samples of a batch and where it stands, so whichever worker loads it, and however many there are, the batch is
the same. They live on from epoch to epoch and load across its end.
"""

from collections import deque
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset

from instep.data.batching import Batching
from instep.data.loading.failure import WorkerFailure, pack_error, unpack_error
from instep.data.loading.pool import Pool
from instep.data.loading.transfer import Request, incoming, outgoing
from instep.data.position import Source
from instep.data.sources.dataloader import WorkerSettings
from instep.data.sources.samples import Samples
from instep.data.sources.stream import Read, Span, Stream
from instep.data.sources.target import Targeted
from instep.data.sources.view import View
from instep.errors import DataError


class Workers:
    """Processes that load batches of a source, in order, from any batch of any epoch.

    `epochs`: how many the run has; the workers load across the end of each but the last.
    """

    def __init__(
        self, source: Source, batching: Batching, *, count: int, epochs: int, settings: WorkerSettings, pin_memory: bool
    ) -> None:
        self._source = source
        self._per_epoch = batching.batches_per_epoch
        self._pin_memory = pin_memory
        self._asked = _Asked(batching, epochs)
        self._pool = Pool(source, count, settings)
        self._loader: DataLoader[Any] | None = None
        self._iterator: Iterator[Any] | None = None

    def batches(self, epoch: int, start: int) -> Iterator[tuple[Request, Any]]:
        """The batches of an epoch from one on. Somebody else may read in between: this goes on where it was."""
        for index in range(start, self._per_epoch):
            if self._iterator is None or not self._asked.stands_at(epoch, index):
                self._begin(epoch, index)
            yield self._next()

    def close(self) -> None:
        """End the processes; the next batch that is asked for starts new ones."""
        self._pool.close()
        self._iterator = None
        self._loader = None

    def _begin(self, epoch: int, index: int) -> None:
        self._asked.start = (epoch, index)
        try:
            if self._loader is None:
                self._loader = self._pool.loader(
                    _Reader(self._source), sampler=self._asked, persistent_workers=True, pin_memory=self._pin_memory
                )
            self._iterator = self._pool.start(self._loader)
        except BaseException:
            self.close()
            raise

    def _next(self) -> tuple[Request, Any]:
        assert self._iterator is not None
        try:
            batch = self._pool.next_batch(self._iterator, self._asked.pending[0].indices)
        except DataError:
            self.close()
            raise
        except BaseException:
            self._iterator = None  # whether the batch was taken is not known: begin anew
            raise
        request = self._asked.pending.popleft()
        if isinstance(batch, WorkerFailure):
            self._iterator = None
            raise unpack_error(batch)
        return request, incoming(batch)


class StreamWorker:
    """One process that reads a stream ahead."""

    def __init__(self, stream: Stream, *, settings: WorkerSettings, pin_memory: bool) -> None:
        self._stream = stream
        self._pin_memory = pin_memory
        self._pool = Pool(stream, 1, settings)

    def read(self, span: Span) -> Iterator[Read]:
        """The batches of a span, by a process of their own."""
        iterator = self._pool.start(self._pool.loader(_StreamReader(self._stream, span), pin_memory=self._pin_memory))
        try:
            while True:
                try:
                    read = self._pool.next_batch(iterator)
                except StopIteration:
                    return
                if isinstance(read, WorkerFailure):
                    raise unpack_error(read)
                yield read._replace(data=incoming(read.data))
        finally:
            self._pool.close()


class _Asked:
    """What the workers are asked for, as torch wants its sampler: the rest of an epoch, and those that follow."""

    def __init__(self, batching: Batching, epochs: int) -> None:
        self._batching = batching
        self._epochs = epochs
        self.start = (0, 0)  # epoch and batch to begin with, the next time that torch begins
        self.pending: deque[Request] = deque()  # what was asked for and has not come yet

    def __iter__(self) -> Iterator[Request]:
        first, start = self.start
        pending = self.pending = deque()
        for epoch in range(first, max(first + 1, self._epochs)):
            for request in self._batching.requests(epoch, start if epoch == first else 0):
                pending.append(request)
                yield request

    def stands_at(self, epoch: int, index: int) -> bool:
        """Whether the batch that comes next is this one."""
        return bool(self.pending) and (self.pending[0].at.epoch, self.pending[0].index) == (epoch, index)


class _Reader(Dataset[Any]):
    """What a worker calls; for the user's own `worker_init_fn` it is their data set."""

    def __init__(self, source: Source) -> None:
        self.source = source

    def __getitem__(self, request: Request) -> Any:
        try:
            if not len(request.indices):
                return None  # others take all of this batch
            return outgoing(self.source.fetch(torch.from_numpy(request.indices), request.at), self.source.name)
        except DataError as error:
            return pack_error(error)

    def __getattr__(self, name: str) -> Any:
        return _of_users(self, name)


class _StreamReader(IterableDataset[Any]):
    """The same for a stream."""

    def __init__(self, stream: Stream, span: Span) -> None:
        self.source, self._span = stream, span

    def __iter__(self) -> Iterator[Any]:
        try:
            for read in self.source.read(self._span):
                yield read._replace(data=outgoing(read.data, self.source.name))
        except DataError as error:
            yield pack_error(error)

    def __getattr__(self, name: str) -> Any:
        return _of_users(self, name)


def _of_users(reader: _Reader | _StreamReader, name: str) -> Any:
    """An attribute of the data set that the user passed."""
    if name.startswith("__") or "source" not in vars(reader):
        raise AttributeError(name)
    inner: Any = reader.source
    while isinstance(inner, View | Targeted):
        inner = inner.source
    return getattr(inner.dataset if isinstance(inner, Samples | Stream) else inner, name)
