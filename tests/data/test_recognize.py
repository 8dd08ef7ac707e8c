"""What users pass as data, and what is said about the rest."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils.data import ConcatDataset, DataLoader, Subset, TensorDataset, random_split

from feeds import Counting, Squares
from instep.data.sources.recognize import Position, Reading, Source, as_source, held_out
from instep.errors import DataError, DescriptionError

AT = Position(seed=0, epoch=0, place=0)
X, Y = torch.arange(20.0).view(10, 2), torch.arange(10)


@dataclass
class Record:
    x: Tensor
    y: Tensor


class Split:
    """As Hugging Face's data sets look to somebody who was given a dictionary of them."""

    column_names = ("x", "y")


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
    assert fetch(as_source(DataLoader(Squares(), batch_size=3), "train"), 4)[1].tolist() == [16]


def test_a_list_of_samples_is_a_data_set() -> None:
    assert fetch(as_source([(1, 2), (3, 4)], "train"), 1)[1].tolist() == [4]


def test_a_tenth_is_held_out_reproducibly() -> None:
    source = as_source((torch.arange(1000), torch.arange(1000)), "train")
    (train, valid), (again, _) = held_out(source, 0.1, seed=3), held_out(source, 0.1, seed=3)
    train_samples, valid_samples = (fetch(s, *range(len(s)))[0].tolist() for s in (train, valid))
    assert (len(train), len(valid)) == (900, 100)
    assert sorted(train_samples + valid_samples) == list(range(1000))
    assert fetch(again, *range(900))[0].tolist() == train_samples
    assert fetch(held_out(source, 0.1, seed=4)[0], *range(900))[0].tolist() != train_samples
    assert train.origin(torch.tensor([899])).item() == train_samples[899]


class Subclassed(TensorDataset):
    """Doubles what its parent gives: it must not be unwrapped to its parent's tensors."""

    def __getitem__(self, index: int) -> Any:
        return tuple(2 * tensor[index] for tensor in self.tensors)


class SubclassedSubset(Subset[Any]):
    def __getitem__(self, index: Any) -> Any:
        return -self.dataset[self.indices[index]][0]

    def __getitems__(self, indices: list[int]) -> list[Any]:
        return [self[index] for index in indices]


def test_a_subclass_is_what_it_does() -> None:
    assert fetch(as_source(Subclassed(X, Y), "train"), 4)[1].tolist() == [8]
    assert fetch(as_source(SubclassedSubset(Squares(), [3, 4]), "train"), 1).tolist() == [-4]


def test_data_sets_end_to_end() -> None:
    """In memory they are read column by column, in any order; else sample by sample."""
    tensors: ConcatDataset[Any] = ConcatDataset(
        [TensorDataset(X, Y), TensorDataset(X + 100, Y + 100), TensorDataset(X[:1], Y[:1])]
    )
    source = as_source(tensors, "train")
    assert (len(source), source.in_memory) == (21, True)
    x, y = fetch(source, 19, 0, 20, 10, 9)
    assert (y.tolist(), x[:, 0].tolist()) == ([109, 0, 0, 100, 9], [118, 0, 0, 100, 18])
    mixed = as_source(ConcatDataset([Squares(), Squares()]), "train")
    assert not mixed.in_memory
    assert fetch(mixed, 13, 2)[1].tolist() == [9, 4]
    unlike = as_source(ConcatDataset([TensorDataset(X, Y), TensorDataset(X[:, :1], Y)]), "train")
    assert fetch(unlike, 12)[0].tolist() == [[4]]


def test_a_range_is_not_written_out() -> None:
    source = as_source(Subset(Squares(10**9), range(5, 10**9, 7)), "train")
    assert fetch(source, 0, 3)[0].tolist() == [5, 26]
    assert source.origin(torch.tensor([3])).tolist() == [26]


def test_names_and_a_target() -> None:
    columns = {"a": X, "b": Y, "label": Y * 2}
    inputs, target = fetch(as_source(columns, "train", Reading(target="label")), 3)
    assert (set(inputs), target.tolist()) == ({"a", "b"}, [6])
    x, target = fetch(as_source({"x": X, "label": Y}, "train", Reading(target="label")), 3)
    assert (x.tolist(), target.tolist()) == ([[6, 7]], [3])
    both = fetch(as_source(columns, "train", Reading(target=["a", "b"])), 3)
    assert set(both[1]) == {"a", "b"}
    with pytest.raises(DataError, match="target='price' names an entry of each batch of train, and this one has x, label"):
        fetch(as_source({"x": X, "label": Y}, "train", Reading(target="price")), 3)
    with pytest.raises(DataError, match="target='price' names an entry of each batch of train, and this one is a tuple"):
        fetch(as_source(Squares(), "train", Reading(target="price")), 3)


def test_a_huge_share_is_held_out_by_computing() -> None:
    """Nothing is listed; every sample is in one part or the other."""
    train, valid = held_out(as_source(Squares(10**9), "train"), 0.25, seed=1)
    assert (len(train), len(valid)) == (750_000_000, 250_000_000)
    some = torch.arange(0, len(valid), 10**6)
    held = set(valid.origin(some).tolist())
    assert len(held) == 250
    assert not held & set(train.origin(torch.arange(0, len(train), 10**6)).tolist())


def samples(n: int) -> Iterator[int]:
    yield from range(n)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ((X, Y[:7]), "the columns of train have different lengths: 10, 7"),
        ((X[:0], Y[:0]), "train holds no sample"),
        (Subset(Squares(), []), "train holds no sample"),
        (torch.tensor(3.0), "train is a single number; pass a tensor with one entry a sample"),
        (
            [X, X],
            r"train is a list of 2 tensors, .* where each is a sample pass torch\.stack\(train\), or \[\(x, y\), …\] with a",
        ),
        (
            [X, X[:3]],
            r"pass data\.source\(\[\(x,\) for x in train\], collate_fn=…\), since their shapes differ, or .* a tuple: \(x, y\)",
        ),
        ([X.numpy()], r"a list of 1 tensor, .* sample pass np\.stack\(train\)"),
        ({"a": 1}, "train is a dict without a tensor in it"),
        (42, "train is of type int; pass tensors, arrays"),
        ("data.csv", "train is of type str; pass tensors, arrays"),
        (torch.nn.Linear(1, 1), "train is of type Linear; pass tensors, arrays"),
        (Counting(3), "train is read from its beginning only, and here any sample is wanted; pass a Dataset"),
        (samples, r"train is a function that needs arguments; pass functools\.partial\(samples, …\) or one that needs none"),
        (samples(3), "train is a generator, which can be read only once; pass the function that makes it"),
        (Subset(Squares(), [3, 10]), "train is a Subset with index 10, its data set has 10 samples"),
        (Subset(Squares(), range(3, 11)), "train is a Subset with index 10, its data set has 10 samples"),
        (Subset(Counting(3), [0]), "train is a Subset of an iterable, which has no indices"),
        ({"train": Split(), "test": Split()}, r"train holds the splits train, test; pass one of them: data\['train'\]"),
    ],
)
def test_what_cannot_be_used(data: object, words: str) -> None:
    with pytest.raises(DescriptionError, match=words):
        as_source(data, "train")


def test_a_length_that_cannot_be_found() -> None:
    class Unsure(Squares):
        def __len__(self) -> int:
            raise RuntimeError("not yet")

    with pytest.raises(DescriptionError, match="the length of train cannot be found: RuntimeError: not yet"):
        as_source(Unsure(), "train")


@pytest.mark.parametrize(("share", "words"), [(1.5, "valid=1.5 is no share"), (0.0, "valid=0.0 is no share")])
def test_shares_that_are_none(share: float, words: str) -> None:
    with pytest.raises(DescriptionError, match=words):
        held_out(as_source(X, "train"), share, 0)
    with pytest.raises(DescriptionError, match=r"valid=0\.9 of 1 sample leaves none to train on"):
        held_out(as_source(X[:1], "train"), 0.9, 0)
