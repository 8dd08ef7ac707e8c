"""Samples made into batches: every structure, padding, and what does not fit."""

import collections
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils.data import default_collate

from feeds import Squares, assert_equal
from instep.data import pad
from instep.data.collate import collate
from instep.data.position import Position
from instep.data.sources.recognize import Reading, as_source
from instep.errors import DataError, DescriptionError

Pair = collections.namedtuple("Pair", ["x", "y"])


class Typed(NamedTuple):
    x: Tensor
    name: str


@dataclass
class Record:
    x: Tensor
    label: int
    inner: tuple[float, None] = (1.0, None)


def test_every_structure() -> None:
    batch = collate([Record(torch.ones(2), 3), Record(torch.zeros(2), 4)])
    assert isinstance(batch, Record)
    assert (batch.x.tolist(), batch.label.tolist()) == ([[1, 1], [0, 0]], [3, 4])  # type: ignore[attr-defined]
    assert batch.inner[0].dtype == torch.float64  # type: ignore[attr-defined]
    assert batch.inner[1] is None
    pair = collate([Pair(1, {"a": np.ones(2)}), Pair(2, {"a": np.zeros(2)})])
    assert (pair.x.tolist(), pair.y["a"].tolist()) == ([1, 2], [[1, 1], [0, 0]])
    typed = collate([Typed(torch.ones(1), "a"), Typed(torch.ones(1), "b")])
    assert type(typed) is Typed
    assert list(typed.name) == ["a", "b"]


@pytest.mark.parametrize(
    "samples",
    [
        [1, 2],
        [1.5, 2.5],
        [True, False],
        ["a", "b"],
        [np.float32(1), np.float32(2)],
        [np.arange(3), np.arange(3)],
        [torch.ones(2), torch.zeros(2)],
        [{"x": 1, "y": [torch.ones(1), 2.0]}, {"x": 2, "y": [torch.zeros(1), 3.0]}],
    ],
    ids=repr,
)
def test_what_torch_collates_is_the_same(samples: list[Any]) -> None:
    assert_equal(collate(samples), default_collate(samples))


def test_tuples_stay_tuples() -> None:
    assert type(collate([(1, 2), (3, 4)])) is tuple


# --- What does not fit


class Shaped(Squares):
    """Sample 6 is not like the others."""

    def __init__(self, usual: Any, odd: Any) -> None:
        super().__init__(10)
        self.usual, self.odd = usual, odd

    def __getitem__(self, index: int) -> Any:
        return self.odd if index == 6 else self.usual


@pytest.mark.parametrize(
    ("usual", "odd", "words"),
    [
        (torch.zeros(3, 4), torch.zeros(3, 5), r"sample 6 of train has the shape \(3, 5\), sample 2 has \(3, 4\)"),
        ((torch.zeros(2), 1), (torch.zeros(3), 1), r"sample 6 of train has the shape \(3,\) at \[0\], sample 2 has \(2,\)"),
        ({"x": np.zeros(2)}, {"x": np.zeros(1)}, r"sample 6 of train has the shape \(1,\) at \['x'\], sample 2 has \(2,\)"),
        ({"x": 1}, {"x": 1, "y": 2}, "sample 6 of train has the keys x, y, sample 2 has x"),
        ((1, 2), (1,), "sample 6 of train has 1 entries, sample 2 has 2"),
        ((1, 2), {"x": 1}, "sample 6 of train is a dict, sample 2 is a tuple"),
        ((1, torch.ones(1)), (1, None), r"sample 6 of train is None at \[1\], sample 2 is a Tensor of shape \(1,\)"),
        (Record(torch.zeros(2), 1), Record(torch.zeros(3), 1), r"sample 6 of train has the shape \(3,\) at \.x, sample 2 has"),
    ],
)
def test_samples_that_do_not_fit_together(usual: Any, odd: Any, words: str) -> None:
    source = as_source(Shaped(usual, odd), "train")
    with pytest.raises(DataError, match=f"the samples of a batch do not fit together: {words}") as caught:
        source.fetch(torch.tensor([2, 4, 6]), Position(0, 0, 0))
    assert "collate_fn=, like instep.data.pad() for sequences" in str(caught.value)


def test_a_collate_of_ones_own_that_fails() -> None:
    def stacked(samples: list[Any]) -> Tensor:
        return torch.stack(samples)

    source = as_source(Shaped(torch.zeros(2), torch.zeros(3)), "train", Reading(collate=stacked))
    words = r"samples 2, 6 of train cannot be collated \(sample 6 of train has the shape \(3,\), sample 2 has \(2,\)\): RuntimeE"
    with pytest.raises(DataError, match=words) as caught:
        source.fetch(torch.tensor([2, 6]), Position(0, 0, 0))
    assert "in stacked: return torch.stack(samples)" in str(caught.value)


def test_a_type_that_nobody_can_collate() -> None:
    with pytest.raises(DataError, match=r"samples 1, 2 of train cannot be collated: TypeError.*found <class 'object'>"):
        as_source([object()] * 3, "train").fetch(torch.tensor([1, 2]), Position(0, 0, 0))


# --- Padding


def test_sequences_are_padded_and_masked() -> None:
    x, y, mask = pad()([(torch.tensor([5, 6, 7]), 0), (torch.tensor([8]), 1)])
    assert x.tolist() == [[5, 6, 7], [8, 0, 0]]
    assert (y.tolist(), mask.tolist()) == ([0, 1], [[True, True, True], [True, False, False]])


@pytest.mark.parametrize("give", ["mask", "lengths", None])
def test_every_structure_is_padded(give: Literal["mask", "lengths"] | None) -> None:
    told: dict[Any, Any] = {"mask": [[True, True], [True, False]], "lengths": [2, 1]}
    lone = pad(9, give=give)([[1, 2], [3]])
    assert (lone if give is None else lone[0]).tolist() == [[1, 2], [3, 9]]
    named = pad({"labels": -100}, give=give)([{"ids": [1, 2], "labels": [3, 4]}, {"ids": [5], "labels": [6]}])
    assert (named["ids"].tolist(), named["labels"].tolist()) == ([[1, 2], [5, 0]], [[3, 4], [6, -100]])
    pair = pad((0, -100), give=give)([(np.array([1, 2]), [3, 4]), (np.array([5]), [6])])
    assert (pair[0].tolist(), pair[1].tolist()) == ([[1, 2], [5, 0]], [[3, 4], [6, -100]])
    if give is not None:
        assert lone[1].tolist() == named[give].tolist() == pair[2].tolist() == told[give]
    else:
        assert (set(named), len(pair)) == ({"ids", "labels"}, 2)


def test_of_which_sequence_and_to_which_length() -> None:
    samples = [(torch.zeros(2, 3), torch.ones(4)), (torch.zeros(2, 3), torch.ones(1))]
    image, text, mask = pad(of=1, multiple_of=8)(samples)
    assert (image.shape, text.shape, mask.sum(1).tolist()) == ((2, 8, 3), (2, 8), [4, 1])


def test_vectors_are_padded_along_their_first_dimension_only() -> None:
    source = as_source(Shaped(torch.zeros(4, 2), torch.zeros(3, 2)), "train", Reading(collate=pad(give=None)))
    assert source.fetch(torch.tensor([2, 6]), Position(0, 0, 0)).shape == (2, 4, 2)
    source = as_source([torch.zeros(4), torch.zeros(2)], "data", Reading(collate=pad(give=None)))  # bare tensors are samples
    assert source.fetch(torch.tensor([0, 1]), Position(0, 0, 0)).shape == (2, 4)
    source = as_source(Shaped(torch.zeros(4, 2), torch.zeros(4, 3)), "train", Reading(collate=pad()))
    words = r"sample 6 of train has the shape \(4, 3\) at \[0\], and only the first dimension may differ, sample 2 has \(4, 2\)"
    with pytest.raises(DataError, match=words):
        source.fetch(torch.tensor([2, 6]), Position(0, 0, 0))


def test_paddings_that_make_no_sense() -> None:
    with pytest.raises(DescriptionError, match='give=\'length\' is not known; use "mask", "lengths", or None'):
        pad(give="length")  # type: ignore[arg-type]
    with pytest.raises(DescriptionError, match="multiple_of=0 must be 1 or more"):
        pad(multiple_of=0)


def test_padding_promotes_and_refuses_what_it_was_told_of_no_column() -> None:
    assert pad(give=None)([([1, 2], 0), ([1.5], 1)])[0].tolist() == [[1.0, 2.0], [1.5, 0.0]]
    assert pad({1: -100}, give=None)([([1, 2], [1, 2]), ([1], [1])])[1].tolist() == [[1, 2], [1, -100]]
    with pytest.raises(DescriptionError, match=r"pad\(\) names a column 'lables'; a sample has 'x', 'labels'"):
        pad({"lables": -100})([{"x": [1], "labels": [1]}])
    with pytest.raises(DescriptionError, match=r"pad\(\) names a column 'z'"):
        pad(of="z")([{"x": [1]}])
    with pytest.raises(DescriptionError, match=r"pad\(\) has 1 values for samples of 2 entries; give one for each"):
        pad((-1,))([([1], [1])])
    with pytest.raises(DescriptionError, match=r"pad\(\) would write over the column 'mask' of the samples"):
        pad()([{"mask": [1, 2], "x": [1]}])
