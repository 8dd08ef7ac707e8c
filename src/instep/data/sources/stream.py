"""Stream: data that can only be read from its beginning, an IterableDataset or a function that returns an iterator.

Owns where reading stands. An epoch is one pass over the data; with `steps_per_epoch` it is that many batches, read on from
where the last epoch ended, and from the beginning again where the data ends. Each sample is read under the key of its place.
"""

import copy
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from instep import keys
from instep.data.collate import collate
from instep.data.copies import NoCopy, copied
from instep.data.loading.augmenters import adapted, augmenters, draw_from_keyed
from instep.data.loading.failure import RAISED, failed
from instep.data.position import Collate, Indices, Transform
from instep.data.share import Share
from instep.data.sources.samples import one_thread, uncollatable
from instep.errors import DataError, DescriptionError, give_notice
from instep.text import plural

PATIENCE_S = 3.0  # after which it is said that samples are being counted


@runtime_checkable
class Stateful(Protocol):
    """An iterable, or its iterator, that can say where it stands and go there."""

    def state_dict(self) -> Any: ...
    def load_state_dict(self, state: Any, /) -> object: ...


@runtime_checkable
class PerEpoch(Protocol):
    """An iterable that wants to know which pass begins, as those of Hugging Face do."""

    def set_epoch(self, epoch: int, /) -> object: ...


class Called:
    """A function that returns an iterator, as an iterable."""

    def __init__(self, function: Callable[[], Iterable[Any]]) -> None:
        self.function = function

    def __iter__(self) -> Iterator[Any]:
        return iter(self.function())


class Span(NamedTuple):
    """What to read: from which batch on, up to the end of which epoch, in batches of what size."""

    seed: int
    batch_size: int
    epoch: int
    index: int  # type: ignore[assignment]  # of the first batch in its epoch
    last_epoch: int  # the last that is read
    steps_per_epoch: int | None = None  # None: an epoch is one pass
    drop_last: bool = False
    state: Any = None  # that of the batch before, where it is known
    share: Share | None = None  # what is taken of each batch; all of it is read

    @property
    def passed(self) -> int:
        """Samples that have to be read and dropped to get there, where no state helps."""
        whole = 0 if self.steps_per_epoch is None else self.epoch * self.steps_per_epoch
        return (whole + self.index) * self.batch_size

    def place(self, number: int) -> tuple[int, int]:
        """The epoch and the place in it of the sample with this number: counted from this epoch's first, or from the run's."""
        if self.steps_per_epoch is None:
            return self.epoch, number
        return divmod(number, self.steps_per_epoch * self.batch_size)


class Read(NamedTuple):
    """A batch that was read, and the state of the data behind it."""

    data: Any
    epoch: int
    index: int  # type: ignore[assignment]
    samples: int
    state: Any


class Stream:
    """An iterable as a source of batches; `length` is what it says of itself, or what was counted; None where nobody knows."""

    in_memory = False

    def __init__(
        self,
        iterable: Any,
        name: str,
        *,
        length: int | None,
        transform: Transform | None = None,
        collate: Collate | None = None,
    ) -> None:
        self.name = name
        self.dataset = iterable
        self.length = length
        self.transform = None if transform is None else adapted(transform)
        self.augmenters = augmenters(iterable, transform, collate)
        self.collate = collate
        self.slot: Indices = np.zeros(1, np.int64)
        # An iterable that keeps its state itself has to be put back for another pass. One that is told its passes (Hugging
        # Face's) begins them by itself, and takes None for that.
        is_put_back = isinstance(iterable, Stateful) and not isinstance(iterable, PerEpoch)
        self._beginning = copy.deepcopy(iterable.state_dict()) if is_put_back else None
        self._was_read = False
        self._was_counted = False

    def copied(self, what: str) -> "Stream":
        """The same over a copy of the iterable, so that this one stays where it stands; `what` needs it, for the error."""
        other = copy.copy(self)
        try:
            other.dataset = copied(self.dataset)
        except NoCopy as error:
            if isinstance(self.dataset, Called):
                return other  # a function makes its iterator anew every time
            raise DescriptionError(
                f"{what} reads a copy of {self.name}, an iterable, so that the run finds it where it was, and it cannot be "
                f"copied: {error}. Pass the function that makes the iterator, or a Dataset with __getitem__, or leave out of "
                "its __getstate__() what cannot be copied."
            ) from error
        other.slot = self.slot.copy()
        return other

    def count(self, seed: int, most: int) -> bool:
        """Read one pass to learn its length, unless there are more than `most` samples; whether the length is known now.

        Samples are read under the keys of the first epoch, so that what is left out at random is left out here too.
        """
        bare = Stream(self.copied("counting its samples, as it has no __len__,").dataset, self.name, length=None)
        cursor, begun, said = _Cursor(bare, Span(seed, 1, 0, 0, 0)), time.monotonic(), False
        with one_thread(), keys.fork_rng():
            try:
                while cursor.read <= most:
                    cursor.sample(0, cursor.read)
                    if not said and time.monotonic() - begun > PATIENCE_S:
                        said = True
                        self._say_counting(cursor.read)
            except StopIteration:
                self.length, self._was_counted = cursor.read, True
        return self._was_counted

    def _say_counting(self, so_far: int) -> None:
        give_notice(
            f"{self.name} does not say how many samples it has, so it is read once to count them, {so_far:,} so far; save that "
            "with a __len__, or with data.source(…, steps_per_epoch=…)."
        )

    def length_error(self, gave: str, epoch: int) -> DataError:
        """A pass gave another number of samples than is known of this data."""
        if self._was_counted:
            return DataError(
                f"{self.name} gave {plural(self.length or 0, 'sample')} when they were counted and {gave} in epoch "
                f"{epoch}; an epoch of data that changes its length has to be said: data.source(…, steps_per_epoch=…)."
            )
        return DataError(
            f"{self.name} says that it has {plural(self.length or 0, 'sample')} (its __len__) and gave {gave} in epoch {epoch}; "
            "the two have to agree."
        )

    def transformed(self, transform: Transform) -> "Stream":
        return Stream(self.dataset, self.name, length=self.length, transform=transform, collate=self.collate)

    def report_to(self, slot: Indices) -> None:
        self.slot = slot

    def read(self, span: Span) -> Iterator[Read]:
        """The batches of a span."""
        return _endless(self, span) if span.steps_per_epoch is not None else _pass_by_pass(self, span)

    def begun(self, number: int, state: Any = None) -> Iterator[Any]:
        """An iterator for the pass with this number, from its beginning or from a state that the iterable told."""
        if isinstance(self.dataset, PerEpoch):
            self.dataset.set_epoch(number)
        keeps_state = isinstance(self.dataset, Stateful)
        try:
            if keeps_state and (state is not None or self._was_read):
                self.dataset.load_state_dict(copy.deepcopy(self._beginning) if state is None else state)
            self._was_read = True
            iterator: Iterator[Any] = iter(self.dataset)
            if state is not None and not keeps_state and isinstance(iterator, Stateful):
                iterator.load_state_dict(state)
        except RAISED as error:
            raise failed(f"{self.name} cannot be read", error) from error
        return iterator

    def collated(self, samples: list[Any], numbers: list[int]) -> Any:
        try:
            return collate(samples) if self.collate is None else self.collate(samples)
        except RAISED as error:
            raise uncollatable(samples, numbers, self.name, error, theirs=self.collate is not None) from error


class _Cursor:
    """Where reading stands: in which pass, and how many samples of it were read."""

    def __init__(self, stream: Stream, span: Span) -> None:
        self._stream, self._span = stream, span
        self.number, self.read = 0 if span.steps_per_epoch is not None else span.epoch, 0
        self._iterator: Iterator[Any] | None = None
        if span.state is not None:
            self._go_to(span.state)
        else:
            self._drop(span.passed)

    def sample(self, epoch: int, place: int) -> Any:
        """The next sample, under its key; StopIteration where the pass ends."""
        stream = self._stream
        stream.slot[0] = self.read
        if stream.augmenters:
            draw_from_keyed(stream.augmenters)
        keys.seed_all(keys.for_sample(self._span.seed, epoch, place))
        if self._iterator is None:
            self._iterator = stream.begun(self.number)
        try:
            sample = next(self._iterator)
        except StopIteration:
            raise
        except RAISED as error:
            raise failed(f"sample {self.read} of {stream.name} cannot be loaded", error) from error
        self.read += 1
        if stream.transform is None:
            return sample
        try:
            return stream.transform(sample)
        except RAISED as error:
            raise failed(f"sample {self.read - 1} of {stream.name} cannot be loaded", error) from error

    def sample_of_any_pass(self, epoch: int, place: int) -> Any:
        """The next sample, from the beginning again where the data ends."""
        try:
            return self.sample(epoch, place)
        except StopIteration:
            if not self.read:
                raise DataError(f"{self._stream.name} gave no sample.") from None
            self.number, self.read, self._iterator = self.number + 1, 0, None
        try:
            return self.sample(epoch, place)
        except StopIteration:
            raise DataError(f"{self._stream.name} gave no sample when it was read again, pass {self.number + 1}.") from None

    def state(self) -> Any:
        """Where reading stands, as data; None where the iterable cannot say it."""
        teller = self._iterator if isinstance(self._iterator, Stateful) else self._stream.dataset
        if not isinstance(teller, Stateful):
            return None
        return {"pass": self.number, "read": self.read, "own": copy.deepcopy(teller.state_dict())}

    def _go_to(self, state: Any) -> None:
        self.number, self.read = state["pass"], state["read"]
        with one_thread(), keys.fork_rng():
            self._iterator = self._stream.begun(self.number, state["own"])

    def _drop(self, count: int) -> None:
        take = self.sample if self._span.steps_per_epoch is None else self.sample_of_any_pass
        with one_thread(), keys.fork_rng():
            for number in range(count):
                try:
                    take(*self._span.place(number))
                except StopIteration:
                    raise DataError(
                        f"{self._stream.name} ended after {plural(number, 'sample')}, before batch {self._span.index} of epoch "
                        f"{self._span.epoch}, where this run goes on; it gave more when the run began."
                    ) from None


def _endless(stream: Stream, span: Span) -> Iterator[Read]:
    cursor = _Cursor(stream, span)
    assert span.steps_per_epoch is not None
    for epoch in range(span.epoch, span.last_epoch + 1):
        for index in range(span.index if epoch == span.epoch else 0, span.steps_per_epoch):
            first = index * span.batch_size
            places = list(range(first, first + span.batch_size))
            with one_thread(), keys.fork_rng():
                samples = [cursor.sample_of_any_pass(epoch, place) for place in places]
                data = _batched(stream, samples, span, epoch, index)
            yield Read(data, epoch, index, span.batch_size, cursor.state())


def _pass_by_pass(stream: Stream, span: Span) -> Iterator[Read]:
    for epoch in range(span.epoch, span.last_epoch + 1):
        here = span if epoch == span.epoch else span._replace(epoch=epoch, index=0, state=None)
        yield from _one_pass(stream, here)


def _one_pass(stream: Stream, span: Span) -> Iterator[Read]:
    cursor = _Cursor(stream, span)
    index, over = span.index, False
    while not over:
        first = index * span.batch_size
        with one_thread(), keys.fork_rng():
            size = span.batch_size if stream.length is None else min(span.batch_size, stream.length - first)
            samples, over = _gathered(cursor, span, first, size)
            if over or first + len(samples) == stream.length:
                over = True
                _check_length(stream, cursor, span)
            if not samples or (over and span.drop_last and len(samples) < span.batch_size):
                return
            data = _batched(stream, samples, span, span.epoch, index)
        yield Read(data, span.epoch, index, len(samples), cursor.state())
        index += 1


def _batched(stream: Stream, samples: list[Any], span: Span, epoch: int, index: int) -> Any:
    """Samples that were read as a batch, or what of it is taken here, under the key of its first place; None for nothing."""
    begin, end = (0, len(samples)) if span.share is None else span.share.part(index, len(samples))
    if begin == end:
        return None
    first = index * span.batch_size
    keys.seed_all(keys.for_batch(span.seed, epoch, first + begin))
    return stream.collated(samples[begin:end], list(range(first + begin, first + end)))


def _gathered(cursor: _Cursor, span: Span, first: int, size: int) -> tuple[list[Any], bool]:
    """The samples of a batch, and whether the pass ended with them."""
    samples: list[Any] = []
    for place in range(first, first + size):
        try:
            samples.append(cursor.sample(span.epoch, place))
        except StopIteration:
            return samples, True
    return samples, False


def _check_length(stream: Stream, cursor: _Cursor, span: Span) -> None:
    """At the end of a pass: as many samples as the data says it has, neither fewer nor more."""
    if stream.length is None:
        return
    gave = f"{cursor.read:,}"
    if cursor.read == stream.length:
        try:
            cursor.sample(span.epoch, cursor.read)
        except StopIteration:
            return
        gave = "more"
    raise stream.length_error(gave, span.epoch)
