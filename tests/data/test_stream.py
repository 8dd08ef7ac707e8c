"""Data that can only be read from its beginning."""

import random
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.utils.data import IterableDataset

from feeds import Counting, NoisyStream, assert_same, loader, read
from instep.data.loading.loader import Batch, Loader
from instep.data.sources.recognize import Reading, as_data
from instep.data.sources.stream import Stream
from instep.errors import DataError, DescriptionError, Notice


def made(data: Any, **options: Any) -> Loader:
    source = as_data(data, "train")
    assert isinstance(source, Stream)
    return loader(source, **options)


def samples(batches: list[Batch]) -> list[list[int]]:
    return [batch.data.tolist() for batch in batches]


def test_an_epoch_is_one_pass() -> None:
    stream = made(Counting(10, 10), epochs=2)
    assert (stream.samples, stream.batches_per_epoch) == (10, 3)
    once = [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    batches = read(stream)
    assert samples(batches) == once * 2
    assert [(batch.epoch, batch.index, batch.samples) for batch in batches][2:4] == [(0, 2, 2), (1, 0, 4)]
    assert batches[2].indices.tolist() == [8, 9]
    assert samples(read(made(Counting(10, 10), drop_last=True))) == once[:2] * 2
    assert samples(read(made(Counting(8, 8)), range(1))) == once[:2]


def test_without_a_length_it_is_read_to_its_end() -> None:
    """As validation data are."""
    stream = made(Counting(6))
    assert (stream.samples, stream.batches_per_epoch) == (None, None)
    assert samples(read(stream)) == [[0, 1, 2, 3], [4, 5]] * 2
    assert samples(read(made(Counting(8)), range(1))) == [[0, 1, 2, 3], [4, 5, 6, 7]]


def test_steps_per_epoch_reads_on_and_begins_again() -> None:
    def endless() -> Iterator[int]:
        number = 0
        while True:
            yield number
            number += 1

    assert samples(read(made(endless, steps_per_epoch=1, epochs=3), range(3))) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]
    stream = made(Counting(6), steps_per_epoch=2, epochs=2)
    assert (stream.samples, stream.batches_per_epoch) == (8, 2)
    assert samples(read(stream)) == [[0, 1, 2, 3], [4, 5, 0, 1], [2, 3, 4, 5], [0, 1, 2, 3]]


def test_each_sample_is_read_under_its_key() -> None:
    """Also with a transform, and wherever the batches fall."""
    whole = read(made(NoisyStream(12, 12), epochs=2))
    cut = read(made(NoisyStream(12, 12), batch_size=3, epochs=2))
    for column in range(4):
        one, other = (torch.cat([batch.data[column] for batch in batches]) for batches in (whole, cut))
        assert torch.equal(one, other)
    assert not torch.equal(whole[0].data[0], whole[3].data[0])
    drawing = as_data(Counting(8, 8), "train").transformed(lambda sample: (sample, random.random()))
    assert_same(read(loader(drawing)), read(loader(drawing)))


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("steps", [None, 3])
def test_starting_anywhere_by_skipping(workers: int, steps: int | None) -> None:
    options: dict[str, Any] = {"steps_per_epoch": steps, "epochs": 3, "batch_size": 4}
    data = NoisyStream(11, 11)
    whole = [list(made(data, **options).batches(epoch)) for epoch in range(1)]
    reference = made(data, **options)
    whole = [list(reference.batches(epoch)) for epoch in range(3)]
    tail = made(data, workers=workers, **options)
    skipped = 4 * (1 * 3 + 2) if steps else 4 * 2
    words = (
        rf"train cannot say where it stands \(it has no state_dict\(\)\): {skipped} samples are read again to get to batch 2 of"
    )
    with pytest.warns(Notice, match=words):
        assert_same([*tail.batches(1, 2), *tail.batches(2)], [*whole[1][2:], *whole[2]])
    tail.close()


class Resumable(IterableDataset[Any]):
    """Says where it stands; `where` is what does: the iterable, or its iterator."""

    def __init__(self) -> None:
        self.at = 0
        self.read: list[int] = []

    def __iter__(self) -> Iterator[Any]:
        while self.at < 10:
            self.at += 1
            self.read.append(self.at - 1)
            yield self.at - 1, random.random()
        self.at = 0

    def state_dict(self) -> dict[str, int]:
        return {"at": self.at}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.at = state["at"]


class Iterating:
    def __init__(self, read: list[int]) -> None:
        self.at, self.read = 0, read

    def __next__(self) -> Any:
        if self.at == 10:
            raise StopIteration
        self.at += 1
        self.read.append(self.at - 1)
        return self.at - 1, random.random()

    def __iter__(self) -> "Iterating":
        return self

    def state_dict(self) -> dict[str, int]:
        return {"at": self.at}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.at = state["at"]


class WithIterator(IterableDataset[Any]):
    def __init__(self) -> None:
        self.read: list[int] = []

    def __iter__(self) -> Iterating:
        return Iterating(self.read)


@pytest.mark.parametrize("kind", [Resumable, WithIterator])
@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("steps", [None, 4])
def test_a_state_of_its_own_is_used(kind: Any, workers: int, steps: int | None) -> None:
    options: dict[str, Any] = {"steps_per_epoch": steps, "epochs": 3, "batch_size": 3}
    if steps is None:
        kind = type(kind.__name__, (kind,), {"__len__": lambda self: 10})
    whole = made(kind(), **options)
    seen, states = [], []
    for epoch in range(3):
        for batch in whole.batches(epoch):
            seen.append(batch)
            states.append(whole.state)
    for at in (0, 2, 3, 5, 6):
        data = kind()
        rest = made(data, workers=workers, **options)
        rest.resume(states[at])
        epoch, index = divmod(at + 1, 4)
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # nothing is read again
            got = [*rest.batches(epoch, index)]
            for later in range(epoch + 1, 3):
                got += rest.batches(later)
        assert_same(got, seen[at + 1 :])
        rest.close()
        assert rest.state == states[-1]


def test_a_look_from_the_side_costs_a_restart_and_nothing_else() -> None:
    stream = made(Resumable(), steps_per_epoch=4, epochs=1, batch_size=2)
    expected = read(made(Resumable(), steps_per_epoch=4, epochs=1, batch_size=2), range(1))
    got = []
    for batch in stream.batches(0):
        got.append(batch)
        if batch.index == 1:
            first = next(stream.batches(0))
            assert_same([first], expected[:1])
    assert_same(got, expected)


# --- Errors


class Failing(Counting):
    def __iter__(self) -> Iterator[Any]:
        yield from range(6)
        raise OSError("connection lost")


@pytest.mark.parametrize("workers", [0, 1])
def test_an_error_names_the_sample_and_the_line(workers: int) -> None:
    with pytest.raises(
        DataError, match=r"sample 6 of train cannot be loaded: OSError: connection lost \(.*test_stream\.py:\d+, in"
    ):
        read(made(Failing(10, 10), workers=workers))
    broken = as_data(Counting(5, 5), "train").transformed(lambda sample: 1 / (sample - 3))
    with pytest.raises(DataError, match="sample 3 of train cannot be loaded: ZeroDivisionError"):
        read(loader(broken, workers=workers))


@pytest.mark.parametrize("workers", [0, 1])
def test_lengths_that_lie(workers: int) -> None:
    words = r"train says that it has {} samples \(its __len__\) and gave {} in epoch 0; the two have to agree"
    for samples_there, length, gave in ((10, 12, "10"), (8, 12, "8"), (12, 10, "more"), (12, 8, "more")):
        with pytest.raises(DataError, match=words.format(length, gave)):
            read(made(Counting(samples_there, length), workers=workers))


def test_streams_that_cannot_be_read() -> None:
    with pytest.raises(DataError, match="train gave no sample"):
        read(made(Counting(0), steps_per_epoch=1, epochs=1), range(1))
    with pytest.raises(DataError, match="train cannot be read: TypeError: 'int' object is not iterable"):
        read(made(lambda: 3), range(1))
    with (
        pytest.warns(Notice, match="12 samples are read again"),
        pytest.raises(DataError, match="train ended after 10 samples, before batch 3 of epoch 0, where this run goes on"),
    ):
        list(made(Counting(10)).batches(0, 3))


class Once(IterableDataset[int]):
    """Empty from the second time on."""

    def __init__(self) -> None:
        self.left = list(range(6))

    def __iter__(self) -> Iterator[int]:
        while self.left:
            yield self.left.pop(0)


def test_an_iterable_that_does_not_begin_again() -> None:
    with pytest.raises(DataError, match=r"train gave no sample when it was read again, pass 2\."):
        read(made(Once(), steps_per_epoch=4, epochs=1), range(1))


def test_descriptions_that_make_no_sense() -> None:
    with pytest.raises(
        DescriptionError, match=r"num_workers=2 cannot read train: an iterable is read from its beginning, and 2 proc"
    ):
        made(Counting(3, 3), workers=2)
    with pytest.raises(DescriptionError, match="drop_last=True leaves nothing of 3 samples of train in batches of 4"):
        made(Counting(3, 3), drop_last=True)
    with pytest.raises(DescriptionError, match="leaves nothing of 1 sample of train in batches of 4; use a smaller"):
        made(Counting(1, 1), drop_last=True)
    with pytest.raises(DescriptionError, match="target= is for data with named columns, and train is an iterable"):
        as_data(Counting(3), "train", Reading(target="y"))
