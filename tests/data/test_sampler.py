"""Which samples an epoch has: draws by weight, balanced classes, one's own function, torch's samplers."""

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import (
    BatchSampler,
    DistributedSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
)

from feeds import Squares
from instep.data import Order, class_balanced, weighted
from instep.data.sampler import Drawn
from instep.data.sampling import sampler_for
from instep.data.sources.recognize import Source, as_source, held_out
from instep.errors import DataError, DescriptionError

TEN = as_source(Squares(10), "train")


def epoch_of(given: Any, source: Source = TEN, *, epoch: int = 0, seed: int = 0) -> list[int]:
    sampler = sampler_for(given, source, shuffle=True)
    indices: list[int] = sampler.slice(seed, epoch, 0, sampler.samples).tolist()
    return indices


# --- Functions of position


@settings(max_examples=40, deadline=None)
@given(start=st.integers(0, 200), stop=st.integers(0, 200), epoch=st.integers(0, 5), seed=st.integers(0, 5), data=st.data())
def test_any_part_of_an_epoch_is_that_part_of_the_whole(start: int, stop: int, epoch: int, seed: int, data: Any) -> None:
    start, stop = min(start, stop), max(start, stop)
    weights = np.arange(200) % 7
    source = as_source((torch.zeros(200), torch.arange(200) % 7), "train")
    given_as = data.draw(
        st.sampled_from(
            [
                None,
                weighted(weights),
                weighted(weights, samples=150, replacement=False),
                class_balanced(),
                lambda epoch, seed: np.random.permutation(200),
                RandomSampler(range(200), replacement=True, num_samples=200),
                SubsetRandomSampler(range(3, 160)),
            ]
        )
    )
    sampler, another = (sampler_for(given_as, source, shuffle=True) for _ in range(2))
    start, stop = min(start, sampler.samples), min(stop, sampler.samples)
    whole = another.slice(seed, epoch, 0, sampler.samples)
    assert sampler.slice(seed, epoch, start, stop).tolist() == whole[start:stop].tolist()
    assert sampler.slice(seed, epoch + 1, 0, 20).tolist() != whole[:20].tolist()
    assert sampler.slice(seed, epoch, start, stop).tolist() == whole[start:stop].tolist()


def test_weights_are_chances() -> None:
    drawn = np.array(epoch_of(weighted([0, 1, 2, 3, 0, 0, 0, 0, 0, 4], samples=100_000)))
    shares = np.bincount(drawn, minlength=10) / len(drawn)
    assert shares.tolist() == pytest.approx([0, 0.1, 0.2, 0.3, 0, 0, 0, 0, 0, 0.4], abs=0.006)
    uniform = Drawn(10, 100_000).slice(0, 0, 0, 100_000)
    assert (np.bincount(uniform, minlength=10) / 100_000).tolist() == pytest.approx([0.1] * 10, abs=0.005)


def test_a_draw_at_the_very_end_is_a_sample_with_weight(monkeypatch: pytest.MonkeyPatch) -> None:
    class Largest:
        def __init__(self, key: int) -> None: ...
        def advance(self, steps: int) -> None: ...
        def random_raw(self, size: int) -> Any:
            return np.full(size, 2**64 - 1, dtype=np.uint64)

    monkeypatch.setattr(np.random, "Philox", Largest)
    assert Drawn(4, 4, np.array([0.1, 0.2, 1e-17, 0.0])).slice(0, 0, 0, 4).max() <= 2
    assert Drawn(4, 4).slice(0, 0, 0, 4).tolist() == [3] * 4


def test_without_replacement_each_comes_once_and_the_heavy_ones_first() -> None:
    weights = [0, 1, 1, 1, 1, 1, 1, 1, 1, 50]
    firsts = []
    for epoch in range(200):
        drawn = epoch_of(weighted(weights, samples=9, replacement=False), epoch=epoch)
        assert sorted(drawn) == list(range(1, 10))
        firsts.append(drawn[0])
    assert firsts.count(9) / 200 == pytest.approx(50 / 58, abs=0.08)


def test_every_class_equally_often_and_its_samples_in_turn() -> None:
    labels = [0] * 7 + [1] * 2 + [5]
    drawn = np.array(epoch_of(class_balanced(labels, samples=12)))
    assert np.bincount(np.array(labels)[drawn], minlength=6).tolist() == [4, 4, 0, 0, 0, 4]
    assert sorted(drawn[(drawn == 7) | (drawn == 8)]) == [7, 7, 8, 8]
    assert len(set(drawn[drawn < 7])) == 4
    counts = [np.bincount(np.array(labels)[epoch_of(class_balanced(labels), epoch=e)], minlength=6) for e in range(6)]
    assert all(sum(count) == 10 and max(count[[0, 1, 5]]) == 4 for count in counts)
    assert len({tuple(count) for count in counts}) == 3  # the one more goes round


def test_labels_are_found_where_that_costs_nothing() -> None:
    class Labelled(Squares):
        targets = (0, 0, 0, 0, 0, 0, 0, 0, 0, 1)

    y = torch.tensor([0] * 9 + [1])
    sources: list[Any] = [(torch.zeros(10), y), {"x": torch.zeros(10), "label": y}, Labelled(), TensorDataset(torch.zeros(10), y)]
    for data in sources:
        drawn = epoch_of(class_balanced(), as_source(data, "train"))
        assert drawn.count(9) == 5
    train, _ = held_out(as_source((torch.zeros(100), torch.arange(100) // 90), "train"), 0.1, seed=0)
    drawn = epoch_of(class_balanced(), train)
    assert sum(train.origin(torch.tensor(drawn)) >= 90) == 45
    transformed = as_source((torch.zeros(10), y), "train").transformed(lambda sample: sample)
    assert epoch_of(class_balanced(), transformed).count(9) == 5
    with pytest.raises(DescriptionError, match=r"class_balanced\(\) cannot find the labels of train without loading it"):
        epoch_of(class_balanced())
    with pytest.raises(DescriptionError, match=r"it looks for whole numbers in memory, .* Pass class_balanced\(labels\)"):
        epoch_of(class_balanced(), as_source((torch.zeros(10), torch.rand(10)), "train"))


def test_a_function_of_ones_own_is_keyed() -> None:
    def drawn(epoch: int, seed: int) -> list[int]:
        return [random.randrange(10) for _ in range(epoch * 0 + 20)]

    assert epoch_of(drawn) == epoch_of(drawn) != epoch_of(drawn, epoch=1)
    assert epoch_of(drawn) != epoch_of(drawn, seed=1)
    assert epoch_of(lambda epoch, seed: range(epoch, 10)) == list(range(10))
    assert epoch_of(lambda epoch, seed: torch.tensor([3, 3])) == [3, 3]


# --- Torch's own


def test_torchs_samplers_by_what_they_mean() -> None:
    order = Order(10, seed=0, epoch=0)[:].tolist()
    data = range(10)
    assert epoch_of(SequentialSampler(data)) == list(range(10))
    assert epoch_of(RandomSampler(data)) == epoch_of(None) == order
    assert epoch_of(RandomSampler(data, num_samples=4)) == order[:4]
    assert len(epoch_of(RandomSampler(data, replacement=True, num_samples=30))) == 30
    assert sorted(epoch_of(SubsetRandomSampler([7, 2, 5]))) == [2, 5, 7]
    assert epoch_of(WeightedRandomSampler([0.0] * 9 + [1.0], 5)) == [9] * 5
    assert sorted(epoch_of(WeightedRandomSampler([1.0] * 10, 10, replacement=False))) == list(range(10))
    assert epoch_of(DistributedSampler(Squares(10), num_replicas=2, rank=1)) == order
    assert epoch_of(DistributedSampler(Squares(10), num_replicas=2, rank=1, shuffle=False)) == list(range(10))


class Backwards(Sampler[int]):
    """Draws from torch's global generator, and knows its epoch."""

    def __init__(self) -> None:
        self.epoch = -1

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __iter__(self) -> Iterator[int]:
        yield from (9 - torch.randperm(10)).tolist()

    def __len__(self) -> int:
        return 10


class Stateful(Backwards):
    """Another order each time, from a generator of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.generator = torch.Generator()

    def __iter__(self) -> Iterator[int]:
        yield from torch.randperm(10, generator=self.generator).tolist()


def test_a_sampler_of_ones_own_is_listed_under_a_key() -> None:
    given_as = Backwards()
    first = epoch_of(given_as)
    assert epoch_of(given_as, epoch=3) != first == epoch_of(given_as)
    assert sorted(first) == list(range(10))
    with pytest.raises(DescriptionError, match="sampler=Stateful gave other indices when it was asked again for the same epoch"):
        epoch_of(Stateful())


# --- What makes no sense


@pytest.mark.parametrize(
    ("given_as", "words"),
    [
        (lambda: weighted([1.0] * 9), "sampler= has 9 weights and train has 10 samples; give one weight a sample"),
        (lambda: class_balanced([0] * 11), "sampler= has 11 labels and train has 10 samples; give one label a sample"),
        (
            lambda: weighted([1, 1] + [0] * 8, replacement=False),
            "cannot draw 10 samples without replacement from 2 with a weight",
        ),
        (lambda: weighted([1, -1]), "weights that are finite, none below 0, and not all 0"),
        (lambda: weighted([0, 0]), "weights that are finite, none below 0, and not all 0"),
        (lambda: weighted(np.ones((1, 1))), r"weighted\(\) needs one weight a sample, got an array of shape \(1, 1\)"),
        (lambda: weighted([1], samples=0), "samples=0 must be a whole number, 1 or more"),
        (lambda: class_balanced([]), r"class_balanced\(\) needs one label a sample, got an array of shape \(0,\)"),
        (lambda: lambda epoch: [1], r"sampler= is called as sampler\(epoch, seed\) and has to return indices"),
        (lambda: lambda epoch, seed: [0.5], "sampler= in epoch 0 gave float64 of shape"),
        (lambda: lambda epoch, seed: [], "sampler= in epoch 0 gave no index at all"),
        (lambda: "shuffle", r"sampler='shuffle' is not known; pass \"balanced\", instep.data.weighted"),
        (lambda: BatchSampler(range(10), 2, False), "sampler= is a BatchSampler, which makes batches"),
        (lambda: RandomSampler(range(10), num_samples=30), "goes through 10 samples several times to draw 30"),
        (lambda: RandomSampler(range(9)), "sampler= is a RandomSampler over 9 samples, and train has 10"),
    ],
)
def test_samplers_that_make_no_sense(given_as: Any, words: str) -> None:
    with pytest.raises(DescriptionError, match=words):
        epoch_of(given_as())


def test_an_index_out_of_range() -> None:
    with pytest.raises(DataError, match=r"gave the index 10 at place 2, which is out of range: train has the samples 0 to 9"):
        epoch_of(lambda epoch, seed: [1, 2, 10])
    with pytest.raises(DataError, match="gave the index -1 at place 0, which is out of range"):
        epoch_of(SubsetRandomSampler([-1]))


def test_an_epoch_of_another_length() -> None:
    sampler = sampler_for(lambda epoch, seed: range(10 - epoch), TEN, shuffle=True)
    with pytest.raises(DataError, match="sampler= gave 9 indices for epoch 1 and 10 for epoch 0; every epoch needs the same"):
        sampler.slice(0, 1, 0, 4)
