"""Streaming: the batches of a stream epoch by epoch, read on where they were left, here or in one worker."""

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

from instep.data.loading.workers import StreamWorker
from instep.data.share import Share
from instep.data.sources.dataloader import WorkerSettings
from instep.data.sources.stream import Read, Span, Stream
from instep.errors import DescriptionError, give_notice
from instep.text import plural

KEPT = 8  # states of past batches: more than are read ahead of the one that is computed with


class Streaming:
    """Where reading a stream stands, from one epoch to the next. Loading ahead goes across the end of each epoch but the last."""

    def __init__(
        self,
        stream: Stream,
        *,
        batch_size: int,
        seed: int,
        drop_last: bool,
        steps_per_epoch: int | None,
        epochs: int,
        workers: int,
        settings: WorkerSettings,
        pin_memory: bool,
        share: Share | None = None,
    ) -> None:
        self._stream = stream
        self._span = Span(seed, batch_size, 0, 0, 0, steps_per_epoch, drop_last, share=share)
        self._epochs = epochs
        self._worker = StreamWorker(stream, settings=settings, pin_memory=pin_memory) if workers else None
        self.batch_size = batch_size
        self.samples, self.batches_per_epoch = _counted(stream, self._span)  # None where nobody knows
        self._reading: Iterator[Read] | None = None
        self._next = (0, 0)  # epoch and index of the batch that comes next
        self._last_epoch = 0  # that is being read
        self.states: dict[tuple[int, int], Any] = {}  # behind the batches that were read last, by epoch and batch

    def batches(self, epoch: int, start: int) -> Iterator[Read]:
        """The batches of an epoch from one on. Somebody else may read in between: this goes on where it was."""
        known = self.batches_per_epoch
        for index in itertools.count(start) if known is None else range(start, known):
            if self._reading is None or self._next != (epoch, index):
                self._reading = self._begun(epoch, index)
            read = self._read()
            if read is None:
                return
            self._next = (epoch + 1, 0) if index + 1 == known else (epoch, index + 1)
            if self._next[0] > self._last_epoch:
                self._reading = None
            if read.state is not None:
                self._keep({"epoch": epoch, "batch": index, **read.state})
            yield read

    def lengthen(self, epochs: int) -> None:
        """The run has more epochs than was said; before it begins to read."""
        self._epochs = max(self._epochs, epochs)

    def resume(self, state: Any) -> None:
        """Use the state that came with a batch to go on behind it."""
        if state is not None:
            self._keep(state)

    def close(self) -> None:
        """Stop reading; asked for a batch again, it begins anew."""
        self._reading = None

    def _keep(self, state: Mapping[str, Any]) -> None:
        self.states[state["epoch"], state["batch"]] = state
        while len(self.states) > KEPT:
            del self.states[next(iter(self.states))]

    def _begun(self, epoch: int, index: int) -> Iterator[Read]:
        known = self.batches_per_epoch is not None
        self._last_epoch = max(epoch, self._epochs - 1) if known else epoch
        span = self._span._replace(epoch=epoch, index=index, last_epoch=self._last_epoch)
        state = self.states.get(self._before(epoch, index))
        if state is not None:
            span = span._replace(state={name: state[name] for name in ("pass", "read", "own")})
        elif span.passed:
            give_notice(
                f"{self._stream.name} cannot say where it stands (it has no state_dict()): "
                f"{plural(span.passed, 'sample')} are read again to get to batch {index} of epoch {epoch}."
            )
        self._reading = None  # the process that read until now ends before another begins
        return self._stream.read(span) if self._worker is None else self._worker.read(span)

    def _before(self, epoch: int, index: int) -> tuple[int, int]:
        """The epoch and the index of the batch before, where the stream goes on behind it; no batch's where a pass begins."""
        if index or self._span.steps_per_epoch is None:
            return epoch, index - 1
        return epoch - 1, self._span.steps_per_epoch - 1

    def _read(self) -> Read | None:
        assert self._reading is not None
        try:
            read = next(self._reading, None)
        except BaseException:
            self._reading = None
            raise
        if read is None:
            self._reading = None
        return read


def _counted(stream: Stream, span: Span) -> tuple[int | None, int | None]:
    """The samples and the batches of an epoch."""
    if span.steps_per_epoch is not None:
        return span.steps_per_epoch * span.batch_size, span.steps_per_epoch
    if stream.length is None:
        return None, None
    if span.drop_last and stream.length < span.batch_size:
        raise DescriptionError(
            f"drop_last=True leaves nothing of {plural(stream.length, 'sample')} of {stream.name} in batches of "
            f"{span.batch_size}; use a smaller batch_size."
        )
    samples = stream.length - stream.length % span.batch_size if span.drop_last else stream.length
    return samples, -(-samples // span.batch_size)
