"""What users pass as data, and what is said about the rest."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset, Subset, TensorDataset, random_split

from instep.data.loader import Loader
from instep.data.source import Position, Source, as_source, held_out
from instep.errors import DescriptionError

AT = Position(seed=0, epoch=0, place=0)
X, Y = torch.arange(20.0).view(10, 2), torch.arange(10)


@dataclass
class Record:
    x: Tensor
    y: Tensor


class Squares(Dataset[tuple[int, int]]):
    def __len__(self) -> int:
        return 10

    def __getitem__(self, index: int) -> tuple[int, int]:
        return index, index**2


def fetch(source: Source, *indices: int) -> Any:
    return source.fetch(torch.tensor(indices), AT)


def test_tensors_and_arrays() -> None:
    assert fetch(as_source(X, "train"), 3, 1).tolist() == [[6, 7], [2, 3]]
    assert fetch(as_source(X.numpy(), "train"), 3).tolist() == [[6, 7]]
    frozen = X.numpy().copy()
    frozen.flags.writeable = False
    assert fetch(as_source(frozen, "train"), 3).tolist() == [[6, 7]]


def test_structures_of_them() -> None:
    x, y = fetch(as_source((X, Y.numpy()), "train"), 4, 2)
    assert (x.tolist(), y.tolist()) == ([[8, 9], [4, 5]], [4, 2])
    batch = fetch(as_source({"x": X, "names": np.array(list("abcdefghij"))}, "train"), 4, 2)
    assert (batch["x"].tolist(), batch["names"]) == ([[8, 9], [4, 5]], ["e", "c"])
    record = fetch(as_source(Record(X, Y), "train"), 4)
    assert isinstance(record, Record)
    assert record.y.tolist() == [4]


def test_data_sets_and_parts_of_them() -> None:
    assert fetch(as_source(TensorDataset(X, Y), "train"), 4)[1].tolist() == [4]
    assert fetch(as_source(Subset(Squares(), [9, 5, 7]), "train"), 0, 2)[1].tolist() == [81, 49]
    nested = Subset(Subset(TensorDataset(X, Y), [2, 4, 6, 8]), [3, 0])
    assert fetch(as_source(nested, "train"), 0, 1)[1].tolist() == [8, 2]
    part, _ = random_split(TensorDataset(X, Y), [4, 6], generator=torch.Generator().manual_seed(0))
    assert fetch(as_source(part, "train"), 0, 1, 2, 3)[1].tolist() == list(part.indices)


def test_a_list_of_samples_is_a_data_set() -> None:
    assert fetch(as_source([(1, 2), (3, 4)], "train"), 1)[1].tolist() == [4]


class Noisy(Dataset[tuple[Tensor, float, float]]):
    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> tuple[Tensor, float, float]:
        return torch.rand(()), random.random(), np.random.rand()


def test_a_sample_is_loaded_under_the_key_of_its_place() -> None:
    """Wherever a batch begins, the sample at a place has the same draws; another epoch or place has others."""
    source = as_source(Noisy(), "train")
    before = torch.random.get_rng_state()
    whole = source.fetch(torch.arange(8), Position(0, 3, 0))
    part = source.fetch(torch.arange(4, 8), Position(0, 3, 4))
    other = source.fetch(torch.arange(8), Position(0, 4, 0))
    assert torch.equal(torch.random.get_rng_state(), before)
    for column, tail, elsewhere in zip(whole, part, other, strict=True):
        assert torch.equal(column[4:], tail)
        assert not torch.equal(column, elsewhere)
        assert len(set(column.tolist())) == 8


def test_loading_uses_one_thread_and_gives_them_back() -> None:
    seen: list[int] = []

    class Watching(Noisy):
        def __getitem__(self, index: int) -> tuple[Tensor, float, float]:
            seen.append(torch.get_num_threads())
            return super().__getitem__(index)

    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        fetch(as_source(Watching(), "train"), 0)
        assert (seen, torch.get_num_threads()) == ([1], 2)
    finally:
        torch.set_num_threads(threads)


def test_an_error_while_loading_names_the_sample() -> None:
    class Broken(Squares):
        def __getitem__(self, index: int) -> tuple[int, int]:
            raise KeyError("label")

    with pytest.raises(KeyError, match="label") as caught:
        fetch(as_source(Broken(), "train"), 7)
    assert caught.value.__notes__ == ["while loading sample 7 of train"]


def test_a_tenth_is_held_out_reproducibly() -> None:
    source = as_source((torch.arange(1000), torch.arange(1000)), "train")
    (train, valid), (again, _) = held_out(source, 0.1, seed=3), held_out(source, 0.1, seed=3)
    train_samples, valid_samples = (fetch(s, *range(len(s)))[0].tolist() for s in (train, valid))
    assert (len(train), len(valid)) == (900, 100)
    assert sorted(train_samples + valid_samples) == list(range(1000))
    assert fetch(again, *range(900))[0].tolist() == train_samples
    assert fetch(held_out(source, 0.1, seed=4)[0], *range(900))[0].tolist() != train_samples
    assert train.origin(torch.tensor([899])).item() == train_samples[899]


class Stream(IterableDataset[int]):
    def __iter__(self) -> Iterator[int]:
        return iter(range(3))


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ((X, Y[:7]), "the columns of train have different lengths: 10, 7"),
        ((X[:0], Y[:0]), "train holds no sample"),
        (Subset(Squares(), []), "train holds no sample"),
        (torch.tensor(3.0), "train is a single number; pass a tensor with one entry a sample"),
        ([X, X], r"train is a list of 2 tensors, which could be columns or samples; pass a tuple \(x, y\)"),
        ({"a": 1}, "train is a dict without a tensor in it"),
        (42, "train is of type int; pass tensors, arrays"),
        ("data.csv", "train is of type str; pass tensors, arrays"),
        (Stream(), "train is of type Stream; pass tensors, arrays"),
        (DataLoader(Squares()), "train is a DataLoader, which is not taken yet; pass its dataset"),
        (Subset(Squares(), [3, 10]), "train is a Subset with index 10, its data set has 10 samples"),
    ],
)
def test_what_cannot_be_used(data: object, words: str) -> None:
    with pytest.raises(DescriptionError, match=words):
        as_source(data, "train")


@pytest.mark.parametrize(("share", "words"), [(1.5, "valid=1.5 is no share"), (0.0, "valid=0.0 is no share")])
def test_shares_that_are_none(share: float, words: str) -> None:
    with pytest.raises(DescriptionError, match=words):
        held_out(as_source(X, "train"), share, 0)
    with pytest.raises(DescriptionError, match=r"valid=0\.9 of 1 samples leaves none to train on"):
        held_out(as_source(X[:1], "train"), 0.9, 0)


@pytest.mark.parametrize("drop_last", [False, True])
def test_every_sample_once_an_epoch_and_from_any_batch(drop_last: bool) -> None:
    loader = Loader(as_source(Y, "train"), batch_size=4, seed=0, device=torch.device("cpu"), shuffle=True, drop_last=drop_last)
    epochs = [[batch.data.tolist() for batch in loader.batches(epoch)] for epoch in range(3)]
    assert all(len({sample for batch in batches for sample in batch}) == (8 if drop_last else 10) for batches in epochs)
    assert epochs[0] != epochs[1] != epochs[2]
    assert [batch.data.tolist() for batch in loader.batches(1, start=1)] == epochs[1][1:]
    assert [len(batch) for batch in epochs[0]] == ([4, 4] if drop_last else [4, 4, 2])


def test_evaluation_goes_in_the_datas_own_order() -> None:
    loader = Loader(as_source(Y, "valid"), batch_size=4, seed=0, device=torch.device("cpu"), shuffle=False)
    assert [batch.data.tolist() for batch in loader.batches(0)] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
