import collections
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from instep.data import pieces
from instep.data.pieces import bounds
from instep.data.structure import columns, joined, size
from instep.errors import DescriptionError

Pair = collections.namedtuple("Pair", ["x", "y"])


@dataclass
class Record:
    x: Tensor
    name: list[str]
    scale: float = 2.0


@given(n=st.integers(1, 200), count=st.integers(1, 50))
def test_cut_as_tensor_split_cuts(n: int, count: int) -> None:
    expected = [t for t in torch.arange(n).tensor_split(count) if len(t)]
    got = list(pieces(torch.arange(n), count))
    assert len(got) == len(expected) == len(bounds(n, count)) == min(n, count)
    assert all(torch.equal(a, b) for a, b in zip(got, expected, strict=True))


@pytest.mark.parametrize(
    "batch",
    [
        (torch.arange(5), torch.arange(5)),
        [torch.arange(5), np.arange(5)],
        {"x": torch.arange(5), "names": list("abcde"), "temperature": torch.tensor(0.5)},
        Pair(torch.arange(5), torch.arange(5)),
        Record(torch.arange(5), list("abcde")),
        {"deep": {"x": (torch.arange(5), [torch.arange(10).view(5, 2)])}, "none": None},
    ],
    ids=["tuple", "list", "mapping", "namedtuple", "dataclass", "nested"],
)
def test_every_structure_keeps_its_shape(batch: object) -> None:
    cut = list(pieces(batch, 2))
    assert [size(part) for part in cut] == [3, 2]
    assert all(type(part) is type(batch) for part in cut)
    assert all(len(column) == size(part) for part in cut for column in columns(part))


@pytest.mark.parametrize("count", [1, 2, 5])
def test_pieces_are_joined_again(count: int) -> None:
    batch = (torch.arange(5), {"names": list("abcde"), "none": None}, Record(torch.arange(5), list("abcde")), np.arange(5))
    first, second, third, fourth = joined(list(pieces(batch, count)))
    assert first.tolist() == third.x.tolist() == fourth.tolist() == [0, 1, 2, 3, 4]
    assert second == {"names": list("abcde"), "none": None}
    assert joined([torch.tensor(1), torch.tensor(2)]).tolist() == [1, 2]


def test_what_is_no_column_goes_with_every_piece() -> None:
    first, second = pieces({"x": torch.arange(4), "k": torch.tensor(3), "label": "one"}, 2)
    assert first["k"] is second["k"]
    assert first["label"] == "one"


def test_pieces_are_views() -> None:
    x = torch.zeros(4)
    for part in pieces(x, 2):
        part += 1
    assert x.tolist() == [1, 1, 1, 1]


def test_what_cannot_be_cut() -> None:
    with pytest.raises(DescriptionError, match="cannot be cut into 0 pieces; use 1 or more"):
        next(pieces(torch.zeros(3), 0))
    with pytest.raises(DescriptionError, match="a batch of type dict holds no tensor"):
        next(pieces({"a": 1}, 2))
