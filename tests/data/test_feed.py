"""What goes with what: training and validation, their transforms, samplers and workers, and a DataLoader's own settings."""

import random
import warnings
from collections.abc import Iterator
from itertools import chain
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    DistributedSampler,
    RandomSampler,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
)

from feeds import CPU, Counting, Squares, assert_equal, read
from instep.data import Order, class_balanced, pad, source, weighted
from instep.data.feed import Feed
from instep.data.loading.loader import Loader
from instep.data.sources.dataloader import dataloader_parts
from instep.errors import DescriptionError, Notice

X, Y = torch.arange(20.0).view(10, 2), torch.arange(10)


def feed(train: Any, valid: Any = None, *, num_workers: Any = None, **said: Any) -> Feed:
    """The data of a run; what is said beyond `num_workers` is said of the training data."""
    return Feed(source(train, **said) if said else train, valid, seed=0, num_workers=num_workers)


def samples(loader: Loader, column: int = 0) -> list[list[int]]:
    return [batch.data[column].tolist() for batch in read(loader, range(1))]


def train_loader(made: Feed, **options: Any) -> Loader:
    size = made.batch_size(None)
    return made.train_loader(batch_size=size, device=CPU, drop_last=made.drop_last(False), **options)


# --- A DataLoader


def test_a_data_loader_is_taken_apart() -> None:
    def stack(samples: list[Any]) -> Any:
        return torch.tensor([sample[0] for sample in samples]), None

    made = feed(DataLoader(Squares(), batch_size=4, shuffle=True, drop_last=True, num_workers=1, collate_fn=stack))
    assert made.batch_size(None) == 4
    assert made.batch_size(None, update_cycle=3, processes=2) == 24
    assert made.drop_last(False)
    assert made.samples(4) == 10
    loader = train_loader(made)
    assert loader.choice is not None
    assert loader.choice.workers == 1
    order = Order(10, seed=0, epoch=0)[:].tolist()
    assert samples(loader) == [order[:4], order[4:8]]


def test_its_order_is_kept() -> None:
    data = TensorDataset(Y, Y)
    in_order = [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9]]
    assert samples(train_loader(feed(DataLoader(data, batch_size=3)))) == in_order
    shuffled = samples(train_loader(feed(DataLoader(data, batch_size=3, shuffle=True))))
    assert sorted(chain(*shuffled)) == list(range(10))
    assert shuffled != in_order
    few = feed(DataLoader(data, batch_size=3, sampler=SubsetRandomSampler([1, 5, 7, 8])))
    assert few.samples(3) == 4
    assert sorted(chain(*samples(train_loader(few)))) == [1, 5, 7, 8]
    heavy = feed(DataLoader(data, batch_size=3, sampler=WeightedRandomSampler([0.0] * 9 + [1.0], 5)))
    assert samples(train_loader(heavy)) == [[9, 9, 9], [9, 9]]
    spread = feed(DataLoader(data, batch_size=3, sampler=DistributedSampler(data, num_replicas=2, rank=0)))
    assert samples(train_loader(spread)) == shuffled


def test_how_its_workers_run_is_kept() -> None:
    begun: list[int] = []
    given = DataLoader(
        Squares(), num_workers=2, prefetch_factor=5, timeout=60, worker_init_fn=begun.append, multiprocessing_context="fork"
    )
    settings = dataloader_parts(given, "train").settings
    assert (settings.prefetch, settings.timeout_s, settings.context.get_start_method()) == (5, 60, "fork")
    assert settings.init is not None
    assert train_loader(feed(given, num_workers=0)).choice.workers == 0  # type: ignore[union-attr]  # what is said here counts


def test_a_generator_of_its_own_is_not_used() -> None:
    given = DataLoader(Squares(), shuffle=True, generator=torch.Generator())
    with pytest.warns(Notice, match="the generator of train's RandomSampler is not used: the order comes from seed="):
        feed(given)


class OwnBatches(BatchSampler):
    pass


class OwnLoader(DataLoader[Any]):
    def __iter__(self) -> Iterator[Any]:  # type: ignore[override]
        yield 1


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (OwnLoader(Squares()), "train is a OwnLoader, which makes its batches in an __iter__ of its own; pass its dataset"),
        (
            DataLoader(Squares(), batch_sampler=OwnBatches(RandomSampler(Squares()), 2, False)),
            r"train has a batch_sampler \(OwnBatches\), which decides batch by batch",
        ),
        (
            DataLoader(Squares(), batch_size=None),
            "train is a DataLoader with batch_size=None, so its data set gives whole batches",
        ),
        (DataLoader(Squares(), num_workers=2, in_order=False), "train has in_order=False: its batches come as they are ready"),
    ],
)
def test_data_loaders_that_cannot_be_taken(given: Any, words: str) -> None:
    with pytest.raises(DescriptionError, match=words):
        feed(given)


def test_a_plain_batch_sampler_is_a_batch_size() -> None:
    made = feed(DataLoader(Squares(), batch_sampler=BatchSampler(RandomSampler(Squares()), 4, True)))
    assert made.batch_size(None) == 4
    assert made.drop_last(False)
    assert samples(train_loader(made)) == samples(train_loader(feed(DataLoader(Squares(), 4, shuffle=True, drop_last=True))))


def test_both_sizes() -> None:
    made = feed(DataLoader(Squares(), batch_size=16))
    with pytest.raises(DescriptionError, match="batch_size=64 is given, and train is a DataLoader with batch_size=16; leave one"):
        made.batch_size(64)
    with pytest.raises(DescriptionError, match="micro_batch_size=8 is given, and train is a DataLoader with batch_size=16"):
        made.batch_size(None, micro_batch_size=8)
    assert feed((X, Y)).batch_size(None) == 64
    assert feed((X, Y)).batch_size(5, update_cycle=2) == 5


# --- Validation


def test_validation_takes_every_sample_once_in_order() -> None:
    given = DataLoader(TensorDataset(Y, Y), batch_size=4, shuffle=True, drop_last=True)
    with pytest.warns(Notice, match="drop_last=True of valid is not used: an evaluation takes every sample"):
        made = feed((X, Y), given)
    loaders = made.valid_loaders(batch_size=100, device=CPU)
    assert samples(loaders["valid"]) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    some = feed((X, Y), DataLoader(TensorDataset(Y, Y), batch_size=9, sampler=SubsetRandomSampler([5, 2])))
    assert samples(some.valid_loaders(batch_size=1, device=CPU)["valid"]) == [[5, 2]]
    with pytest.raises(
        DescriptionError, match="valid is a DataLoader with a WeightedRandomSampler, and an evaluation takes every"
    ):
        feed((X, Y), DataLoader(Squares(), sampler=WeightedRandomSampler([1.0] * 10, 10)))


def test_several_sets_and_a_mapping_of_columns() -> None:
    made = feed((X, Y), {"a": (X[:3], Y[:3]), "b": Squares()})
    assert {name: len(source) for name, source in made.valid.items()} == {"valid/a": 3, "valid/b": 10}  # type: ignore[arg-type]
    columns = feed({"x": X, "y": Y}, {"x": X[:4], "y": Y[:4]})
    assert list(columns.valid) == ["valid"]
    assert list(columns.valid_loaders(batch_size=4, device=CPU)) == ["valid"]
    other = made.loader_for((X[:5], Y[:5]), batch_size=2, device=CPU)
    assert samples(other, 1) == [[0, 1], [2, 3], [4]]
    stream = made.loader_for(Counting(3), batch_size=2, device=CPU)
    assert [batch.data.tolist() for batch in stream.batches(0)] == [[0, 1], [2]]


def test_transforms_belong_to_one_or_the_other() -> None:
    """Also where validation data is a share of the training data."""

    def double(sample: Any) -> Any:
        return 2 * sample[0], sample[1]

    def negate(batch: Any) -> Any:
        return -batch[0], batch[1]

    for valid in (0.5, (X, Y)):
        made = feed((X, Y), source(valid, batch_transform=negate), transform=double)
        for batch in train_loader(made).batches(0):
            assert torch.equal(batch.data[0], 2 * X[batch.data[1]])
        for batch in made.valid_loaders(batch_size=2, device=CPU)["valid"].batches(0):
            assert torch.equal(batch.data[0], -X[batch.data[1]])
        made = feed((X, Y), source(valid, transform=double), batch_transform=negate)
        for batch in train_loader(made).batches(0):
            assert torch.equal(batch.data[0], -X[batch.data[1]])
        for batch in made.valid_loaders(batch_size=2, device=CPU)["valid"].batches(0):
            assert torch.equal(batch.data[0], 2 * X[batch.data[1]])


def test_collate_fn_and_target_go_to_both() -> None:
    lists = [[1, 2, 3], [4], [5, 6]]
    made = feed(lists, lists, collate_fn=pad(give="lengths"))
    (batch,) = made.valid_loaders(batch_size=3, device=CPU)["valid"].batches(0)
    assert batch.data[1].tolist() == [3, 1, 2]
    named = feed({"x": X, "y": Y}, {"x": X, "y": Y}, target="y")
    (batch,) = named.valid_loaders(batch_size=10, device=CPU)["valid"].batches(0)
    assert_equal(batch.data, (X, Y))
    ragged = feed((X, Y), transform=lambda sample: [0] * (int(sample[1]) + 1), collate_fn=pad(give=None))
    assert next(train_loader(ragged).batches(0)).data.shape == (10, 10)


# --- Samplers and shares


def test_weights_of_all_samples_are_those_of_the_ones_that_are_left() -> None:
    weights = np.zeros(100)
    weights[40:] = 1
    labels = torch.arange(100) // 90
    made = feed((torch.arange(100), labels), 0.3, sampler=weighted(weights))
    assert made.samples(64) == 70
    assert all(sample >= 40 for batch in samples(train_loader(made)) for sample in batch)
    for given in (class_balanced(), class_balanced(labels)):
        drawn = torch.tensor([*chain(*samples(train_loader(feed((torch.arange(100), labels), 0.3, sampler=given)), 1))])
        assert drawn.bincount().tolist() == [35, 35]
    with pytest.raises(DescriptionError, match="sampler= has 90 weights and train has 70 samples"):
        feed((torch.arange(100), labels), 0.3, sampler=weighted(weights[:90]))


def test_shares_that_make_no_sense() -> None:
    with pytest.raises(DescriptionError, match="sampler= names samples of all of it; pass data of its own as valid="):
        feed((X, Y), 0.2, sampler=lambda epoch, seed: range(8))
    with pytest.raises(DescriptionError, match=r"valid=0\.2 takes a share of the training data, and train is an iterable"):
        feed(Counting(10, 10), 0.2)
    with pytest.raises(
        DescriptionError, match=r"valid=0\.2 takes a share of the training data, and train is a DataLoader with a"
    ):
        feed(DataLoader(Squares(), sampler=SubsetRandomSampler([1])), 0.2)
    with pytest.raises(DescriptionError, match="sampler= is given, and train is a DataLoader with a sampler of its own"):
        feed(DataLoader(Squares(), sampler=SubsetRandomSampler([1])), sampler=weighted([1.0] * 10))


# --- Iterables


def test_iterables_need_a_length_of_an_epoch() -> None:
    def numbers() -> Iterator[float]:
        while True:
            yield random.random()

    made = feed(numbers, steps_per_epoch=5)
    assert made.samples(8) == 40
    assert train_loader(made).batches_per_epoch == 5
    assert feed(Counting(10, 10)).samples(4) == 10
    with pytest.raises(DescriptionError, match="steps_per_epoch=0 must be a whole number, 1 or more"):
        feed(numbers, steps_per_epoch=0)
    with pytest.raises(DescriptionError, match="steps_per_epoch=5 is for iterables; train has 10 samples"):
        feed((X, Y), steps_per_epoch=5)
    with pytest.raises(DescriptionError, match="sampler= chooses samples by index, and train is an iterable"):
        feed(numbers, steps_per_epoch=5, sampler=weighted([1.0]))
    with pytest.raises(DescriptionError, match="num_workers=2 cannot read train"):
        train_loader(feed(DataLoader(Counting(10, 10), num_workers=2)))


def test_the_workers_of_training_do_not_forbid_an_iterable_for_validation() -> None:
    made = feed(Squares(), Counting(5), num_workers=3)
    loader = made.valid_loaders(batch_size=3, device=CPU)["valid"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert [batch.data.tolist() for batch in read(loader, range(1))] == [[0, 1, 2], [3, 4]]


def test_a_distributed_sampler_of_ones_own_is_refused() -> None:
    class Own(DistributedSampler[int]):
        pass

    data = Squares(10)
    with pytest.raises(DescriptionError, match="train has a Own, which gives each process other samples"):
        feed(DataLoader(data, batch_size=3, sampler=Own(data, num_replicas=2, rank=0)))
