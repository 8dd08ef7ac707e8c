"""The loader: from data and a position to batches on the device.

It owns when a batch is fetched, by whom, and that it arrives: here or by workers, which never changes a batch. Beginning at
batch k of epoch e costs what batch 0 costs, unless the data can only be read from its beginning.
"""

import time
from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import torch
from torch import Tensor

from instep import keys
from instep.data.batch_layout import BY_SAMPLE, BatchLayout
from instep.data.batching import Batching
from instep.data.buckets import Bucketed
from instep.data.device import is_out_of_memory, said
from instep.data.loading.failure import failed
from instep.data.loading.worker_count import Choice, Stopwatch, at_most
from instep.data.position import Position, Source, Transform
from instep.data.sampler import InOrder, Shuffled
from instep.data.sampling import sampler_for
from instep.data.share import Share
from instep.data.sources.dataloader import WorkerSettings
from instep.data.sources.stream import Stream
from instep.data.sources.underlying import frame_layout
from instep.data.structure import map_columns
from instep.errors import DescriptionError, OutOfMemory, give_notice

# Imported by who needs them: most data is in memory, and loaded here.
if TYPE_CHECKING:
    from instep.data.loading.streaming import Streaming
    from instep.data.loading.workers import Workers

WorkerCount = int | Literal["auto"]


class Batch(NamedTuple):
    """The samples of one update (or of one step of an evaluation) and where they stand.

    Where several processes share a batch, `samples` counts all of it, and `data` is this one's part, None where it has none.
    """

    data: Any
    epoch: int
    index: int  # type: ignore[assignment]  # in its epoch
    samples: int
    indices: Tensor  # of the samples in the data set; where several processes share a batch, of those that `data` holds
    on_host: bool = False  # it did not fit on the device as a whole: its pieces are sent one by one


class Loader:
    """Batches of a source, shuffled anew each epoch or in the data's own order.

    `epochs` says how many epochs the run has: workers load ahead across their ends. `say` is told what `num_workers="auto"`
    chose.
    """

    def __init__(
        self,
        source: Source | Stream,
        *,
        batch_size: int,
        seed: int,
        device: torch.device,
        shuffle: bool,
        drop_last: bool = False,
        sampler: Any = None,
        workers: WorkerCount = 0,
        batch_transform: Transform | None = None,
        steps_per_epoch: int | None = None,
        epochs: int = 0,
        settings: WorkerSettings = WorkerSettings(),  # noqa: B008  # it is frozen
        share: Share | None = None,
        say: Callable[[str], object] | None = None,
        layout: BatchLayout = BY_SAMPLE,
        before_first: Callable[[], object] | None = None,
    ) -> None:
        self.name = source.name
        self.layout = layout  # of its batches
        self._before_first = before_first  # called before the first batch is loaded
        self.batch_size = batch_size
        self._source = source
        self._seed = seed
        self._device = device
        self._batch_transform = batch_transform
        self._epochs = epochs
        self._settings = settings
        self._share = share  # what is loaded of each batch, where several processes share it; None: all
        self._say = say
        self.is_dealt = share is not None  # whether other processes have the rest of the data
        self.waited_s = 0.0  # time that the run has spent waiting for batches
        self.state: Any = None  # of a stream behind the batch given last, where it has one: what `resume` takes
        self.choice: Choice | None = _chosen(workers, source)  # None until it has been measured
        self.may_stay_on_host = False  # a batch that does not fit on the device is given out as it is, for its pieces to be sent
        self._workers: Workers | None = None
        self._streaming: Streaming | None = None
        if isinstance(source, Stream):
            from instep.data.loading import streaming

            self._streaming = streaming.Streaming(
                source,
                batch_size=batch_size,
                seed=seed,
                drop_last=drop_last,
                steps_per_epoch=steps_per_epoch,
                epochs=epochs,
                workers=self.choice.workers if self.choice else 1,
                settings=settings,
                pin_memory=device.type == "cuda",
                share=share,
            )
            self.samples, self.batches_per_epoch = self._streaming.samples, self._streaming.batches_per_epoch
            self.takes_each_once = steps_per_epoch is None  # every sample of the data in every epoch
        else:
            chosen = sampler_for(sampler, source, shuffle=shuffle)
            self._batching = Batching(source, chosen, batch_size=batch_size, seed=seed, drop_last=drop_last, share=share)
            self.samples, self.batches_per_epoch = self._batching.samples, self._batching.batches_per_epoch
            self.takes_each_once = isinstance(chosen, InOrder | Shuffled | Bucketed) and chosen.samples == len(source)
            self.choice = self.choice and at_most(self.choice, self.batches_per_epoch, source.name)

    def lengthen(self, epochs: int) -> None:
        """The run may have so many epochs, more than was said when this was made."""
        self._epochs = max(self._epochs, epochs)
        if self._streaming is not None:
            self._streaming.lengthen(epochs)

    def batches(self, epoch: int, start: int = 0) -> Generator[Batch]:
        """The batches of an epoch from the one with index `start` on."""
        before_first, self._before_first = self._before_first, None
        if before_first is not None:
            before_first()
        batches = self._loaded(epoch, start)
        if self._device.type != "cpu":
            batches = self._sent_ahead(batches)
        if self._batch_transform is not None:
            batches = self._transformed(batches, self._batch_transform)
        if self._streaming is not None:
            batches = self._noted(batches, self._streaming)
        clock = time.perf_counter
        begun = clock()
        for batch in batches:
            self.waited_s += clock() - begun
            yield batch
            begun = clock()

    @property
    def is_stream(self) -> bool:
        """Whether the data can only be read from its beginning."""
        return self._streaming is not None

    @property
    def is_in_memory(self) -> bool:
        """Whether the data is there as a whole, so that no worker could bring it sooner."""
        return not isinstance(self._source, Stream) and self._source.in_memory

    def origin(self, indices: Tensor) -> Tensor:
        """The indices of samples in the data that the user passed, which may be more than this loader's."""
        return indices if isinstance(self._source, Stream) else self._source.origin(indices)

    def feature_names(self) -> tuple[str, ...]:
        """The names of the features of a frame; none for other data."""
        layout = frame_layout(self._source)
        return () if layout is None else layout.names

    def resume(self, state: Any) -> None:
        """Go on behind the batch that had this state; of use where the data can only be read from its beginning."""
        if self._streaming is not None:
            self._streaming.resume(state)

    def close(self) -> None:
        """End the worker processes, if there are any. Asked for a batch again, they are started again."""
        if self._workers is not None:
            self._workers.close()
        if self._streaming is not None:
            self._streaming.close()

    # --- Who loads

    def _loaded(self, epoch: int, start: int) -> Iterator[Batch]:
        if self._streaming is not None:
            return self._streamed(self._streaming, epoch, start)
        if self.choice is None:
            return self._measured(epoch, start)
        if self.choice.workers:
            return self._from_workers(self.choice.workers, epoch, start)
        return self._fetched(epoch, start) if self._share is None else self._shared(epoch, start)

    def _fetched(self, epoch: int, start: int) -> Iterator[Batch]:
        """Loaded here, one by one."""
        seed, fetch = self._seed, self._source.fetch  # type: ignore[union-attr]
        index, place = start, start * self._batching.batch_size
        for indices in self._batching.indices(epoch, place):
            data = fetch(indices, Position(seed, epoch, place))
            samples = indices.numel()  # len() of a tensor is Python, and ten times as slow
            yield Batch(data, epoch, index, samples, indices)
            index += 1
            place += samples

    def _shared(self, epoch: int, start: int) -> Iterator[Batch]:
        """The same where other processes load the rest of each batch."""
        for request in self._batching.requests(epoch, start):
            indices = torch.from_numpy(request.indices)
            data = self._source.fetch(indices, request.at) if len(indices) else None  # type: ignore[union-attr]
            yield Batch(data, epoch, request.index, request.samples, indices)

    def _from_workers(self, count: int, epoch: int, start: int) -> Iterator[Batch]:
        if self._workers is None:
            assert not isinstance(self._source, Stream)
            if self._say is not None and self.choice is not None and self.choice.is_fewer:
                self._say(str(self.choice))
            from instep.data.loading.workers import Workers

            self._workers = Workers(
                self._source,
                self._batching,
                count=count,
                epochs=self._epochs,
                settings=self._settings,
                pin_memory=self._device.type == "cuda",
            )
        for request, data in self._workers.batches(epoch, start):
            indices = torch.from_numpy(request.indices)
            yield Batch(data, epoch, request.index, request.samples, indices)

    def _measured(self, epoch: int, start: int) -> Iterator[Batch]:
        """Loaded here under a stopwatch, then by as many workers as pay."""
        stopwatch = Stopwatch(self._device)
        for batch in stopwatch.timed(self._fetched(epoch, start) if self._share is None else self._shared(epoch, start)):
            yield batch
            start = batch.index + 1
        if not stopwatch.is_done:
            return  # the epoch was too short: measured again in the next
        self.choice = stopwatch.choice()
        (self._say or _notice)(str(self.choice))
        yield from self._loaded(epoch, start)

    def _streamed(self, streaming: "Streaming", epoch: int, start: int) -> Iterator[Batch]:
        for read in streaming.batches(epoch, start):
            first = read.index * streaming.batch_size
            begin, end = (0, read.samples) if self._share is None else self._share.part(read.index, read.samples)
            yield Batch(read.data, epoch, read.index, read.samples, torch.arange(first + begin, first + end))

    # --- What happens on the way

    def _sent_ahead(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        """Batches on the device, one ahead: the copy of the next one goes on while this one is computed with."""
        ready: Batch | None = None
        for batch in batches:
            try:
                upcoming = batch._replace(data=sent_batch(batch.data, self._device))
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error):
                    raise
                upcoming = self._left_behind(batch, error)
            if ready is not None:
                yield ready
            ready = upcoming
        if ready is not None:
            yield ready

    def _left_behind(self, batch: Batch, error: Exception) -> Batch:
        if self.may_stay_on_host:
            return batch._replace(on_host=True)
        raise OutOfMemory(
            f"batch {batch.index} of epoch {batch.epoch} of {self.name}: its {batch.samples} samples do not fit in the memory of "
            f'{self._device} as a whole; pass on_out_of_memory="split", which sends training batches piece by piece where needed '
            f"and no batch_transform stands in the way, or use a smaller batch_size. ({said(error)})"
        ) from error

    def _transformed(self, batches: Iterator[Batch], transform: Transform) -> Iterator[Batch]:
        """Whole batches transformed on the device, each under the key of its place."""
        for batch in batches:
            if self._share is not None and not len(batch.indices):
                yield batch
                continue
            place = batch.index * (self._streaming or self._batching).batch_size
            if self._share is not None:
                place += self._share.part(batch.index, batch.samples)[0]
            with keys.fork_rng(self._device):
                keys.seed_all(keys.for_batch_transform(self._seed, batch.epoch, place), self._device)
                try:
                    data = transform(batch.data)
                except (SystemExit, GeneratorExit) as error:
                    where = f"batch {batch.index} of epoch {batch.epoch} of {self.name}"
                    raise failed(f"{where} cannot be transformed", error) from error
            yield batch._replace(data=data)

    def _noted(self, batches: Iterator[Batch], streaming: "Streaming") -> Iterator[Batch]:
        """Keeps the state that belongs to the batch that is given out: others may have been read ahead."""
        for batch in batches:
            self.state = streaming.states.get((batch.epoch, batch.index))
            yield batch


def sent_batch(batch: Any, device: torch.device) -> Any:
    """A batch, or a piece of one, on the device."""
    return map_columns(lambda column: sent(column, device), batch)


def sent(column: Any, device: torch.device) -> Any:
    """A column on the device; a copy to CUDA is pinned and goes on in the background."""
    if not isinstance(column, Tensor):
        return column
    if device.type == "cuda" and column.device.type == "cpu":
        return column.pin_memory().to(device, non_blocking=True)
    return column.to(device)


def _chosen(workers: WorkerCount, source: Source | Stream) -> Choice | None:
    """The number of workers where it is known before anything is loaded."""
    if workers != "auto" and (not isinstance(workers, int) or isinstance(workers, bool) or workers < 0):
        raise DescriptionError(f'num_workers={workers!r} must be a whole number, 0 or more, or "auto".')
    if isinstance(source, Stream):
        if workers != "auto" and workers > 1:
            raise DescriptionError(
                f"num_workers={workers} cannot read {source.name}: an iterable is read from its beginning, and {workers} "
                f"processes would each read all of it, so that every sample came {workers} times. Use num_workers=1, or a "
                "Dataset with indices."
            )
        return Choice(1, "an iterable is read by one process") if workers == "auto" else Choice(workers, "asked for")
    if source.in_memory:
        return Choice(0, "the data is in memory")
    return None if workers == "auto" else Choice(workers, "asked for")


def _notice(text: str) -> None:
    give_notice(text)
