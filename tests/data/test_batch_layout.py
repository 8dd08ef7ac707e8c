"""Where the samples of a batch stand: how it is cut, and what is said where that cannot be known."""

from collections import namedtuple
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.utils.rnn import pack_sequence

from instep.data import pieces, source
from instep.data.batch_layout import BY_SAMPLE, BatchLayout
from instep.errors import DescriptionError

Pair = namedtuple("Pair", ["x", "y"])


@dataclass
class Record:
    x: Tensor
    mask: Tensor


class Graphs:
    """A batch of graphs: nodes of all of them in one tensor."""

    def __init__(self) -> None:
        self.store = {"nodes": torch.zeros(11, 3)}


TIME_FIRST = torch.arange(28).reshape(7, 4)
MASK = torch.ones(7, 7)


def test_one_dimension_for_all_columns() -> None:
    layout = BatchLayout(1)
    x, y, words = layout.piece((TIME_FIRST, np.zeros((2, 4)), list("abcd")), 1, 3)
    assert torch.equal(x, TIME_FIRST[:, 1:3])
    assert (y.shape, words) == ((2, 2), ["b", "c"])
    assert layout.size((TIME_FIRST, torch.zeros(2, 4))) == 4
    assert torch.equal(BatchLayout(-1).piece(TIME_FIRST, 0, 2), TIME_FIRST[:, :2])


@pytest.mark.parametrize(
    ("batch", "batch_dim", "shared", "expected"),
    [
        ({"x": TIME_FIRST, "mask": MASK}, {"x": 1}, "mask", [(7, 2), (7, 7)]),
        (({"x": TIME_FIRST, "mask": MASK}, torch.zeros(4)), {"x": 1}, ("mask",), [(7, 2), (7, 7), (2,)]),
        ((TIME_FIRST, torch.zeros(4), MASK), {0: 1}, (2,), [(7, 2), (2,), (7, 7)]),
        ([TIME_FIRST, torch.zeros(4)], {0: 1}, None, [(7, 2), (2,)]),
        (Pair(TIME_FIRST, torch.zeros(4)), {0: 1}, None, [(7, 2), (2,)]),
        (Record(TIME_FIRST, MASK), {"x": 1}, "mask", [(7, 2), (7, 7)]),
        (TIME_FIRST, {0: 1}, None, [(7, 2)]),
        ((torch.zeros(4, 2), {"all": (MASK, MASK)}), None, "all", [(2, 2), (7, 7), (7, 7)]),
    ],
)
def test_entries_by_their_names(batch: Any, batch_dim: Any, shared: Any, expected: list[tuple[int, ...]]) -> None:
    layout = BatchLayout(batch_dim, shared)
    layout.require(batch, 4, "train")
    piece = layout.piece(batch, 2, 4)
    assert type(piece) is type(batch)
    assert [tuple(column.shape) for column in leaves(piece)] == expected
    assert layout.size(batch) == 4


def leaves(thing: Any) -> list[Tensor]:
    if isinstance(thing, Tensor):
        return [thing]
    parts = thing.values() if isinstance(thing, dict) else vars(thing).values() if isinstance(thing, Record) else thing
    return [leaf for part in parts for leaf in leaves(part)]


def test_a_list_with_one_entry_a_sample() -> None:
    images = [torch.zeros(3, 5), torch.zeros(3, 6), torch.zeros(3, 9)]
    targets = ({"boxes": torch.zeros(2, 4)}, {"boxes": torch.zeros(0, 4)}, {"boxes": torch.zeros(1, 4)})
    layout = BatchLayout({0: 0, 1: 0})
    layout.require((images, targets), 3, "train")
    piece = layout.piece((images, targets), 1, 3)
    assert [len(image[0]) for image in piece[0]] == [6, 9]
    assert piece[1] == targets[1:]
    assert layout.size((images, targets)) == 3


@pytest.mark.parametrize(
    ("batch", "words"),
    [
        (
            {"x": torch.zeros(4, 2), "mask": MASK},
            r"a batch of train with 4 samples cannot be cut into micro-batches: its entry 'mask' has the shape \(7, 7\), not "
            r"4 in dimension 0\. Say where its samples stand, data\.source\(…, batch_dim={'mask': 1}\) for dimension 1, or "
            r"data\.source\(…, shared=\('mask',\)\) where every piece gets all of it\.$",
        ),
        (
            (TIME_FIRST[..., None], torch.zeros(4)),
            r"its entry 0 has the shape \(7, 4, 1\), not 4 in .*batch_dim={0: 1}\) for dim",
        ),
        ((torch.zeros(5, 6, 4), torch.zeros(4)), r"its entry 0 has the shape \(5, 6, 4\).*batch_dim={0: 2}\) for dimension 2"),
        (TIME_FIRST, r"it has the shape \(7, 4\).*data\.source\(…, batch_dim=1\) for dimension 1"),
        (({"x": TIME_FIRST}, torch.zeros(4)), r"its entry 0\['x'\] has the shape \(7, 4\).*batch_dim={'x': 1}"),
        ((torch.zeros(4), np.zeros(3)), r"its entry 1 has the shape \(3,\), not 4 in dimension 0"),
        ((torch.zeros(4), ["a", "b"]), r"its entry 1 is a list of 2, not 4 in dimension 0"),
        ((torch.zeros(4), [torch.zeros(5) for _ in range(4)]), r"entry 1 is a list of tensors, and 4 .*batch_dim={1: 0}\)\.$"),
        ((torch.zeros(4), Graphs()), r"its entry 1 is a Graphs, and how to cut that is not known; use collate_fn= to make tens"),
        (Graphs(), r"it is a Graphs, and how to cut that is not known"),
        ((pack_sequence([torch.zeros(3), torch.zeros(1)]), torch.zeros(4)), r"entry 0 is a PackedSequence; batch padded sequenc"),
    ],
)
def test_what_cannot_be_cut_is_named(batch: Any, words: str) -> None:
    with pytest.raises(DescriptionError, match=words):
        BY_SAMPLE.require(batch, 4, "train")


def test_samples_that_cannot_be_counted_between_processes() -> None:
    words = r"a batch of train with 4 samples cannot be weighted between processes: its entry 0 has the shape \(7, 4\)"
    with pytest.raises(DescriptionError, match=words):
        BY_SAMPLE.require((TIME_FIRST, torch.zeros(4)), 4, "train", first_only=True)
    BY_SAMPLE.require((torch.zeros(4), MASK), 4, "train", first_only=True)


def test_what_belongs_to_the_batch_as_a_whole_is_no_question() -> None:
    class Plain:
        name = "a"

    batch = {"x": torch.zeros(4), "t": torch.tensor(0.5), "word": "a", "none": None, "n": 7, "plain": Plain(), "empty": ()}
    BY_SAMPLE.require(batch, 4, "train")
    assert BY_SAMPLE.piece(batch, 0, 2)["word"] == "a"


def test_a_dimension_that_is_not_there() -> None:
    with pytest.raises(DescriptionError, match=r"its entry 'y' has the shape \(4,\), not 4 in dimension 1"):
        BatchLayout({"x": 1, "y": 1}).require({"x": TIME_FIRST, "y": torch.zeros(4)}, 4, "train")


def test_a_length_that_fits_by_chance_is_found_with_another_number_of_samples() -> None:
    layout = BatchLayout()
    batch = (torch.zeros(4, 2), torch.ones(4, 4))
    layout.require(batch, 4, "train")
    layout.learn((torch.zeros(2, 2), torch.ones(4, 4)), 2)
    with pytest.raises(DescriptionError, match=r"its entry 1 has the shape \(4, 4\) whatever the number of samples\. Say where"):
        layout.require(batch, 4, "train")


@pytest.mark.parametrize("batch_dim", [{"x": "1"}, {"x": True}])
def test_what_is_no_dimension(batch_dim: Any) -> None:
    with pytest.raises(DescriptionError, match=r"batch_dim={'x': .*} is no dimension; use a number, or one for each entry"):
        source((torch.zeros(2),), batch_dim=batch_dim)


def test_batches_of_a_loop_of_ones_own() -> None:
    batch = {"x": TIME_FIRST, "mask": MASK}
    cut = list(pieces(batch, 2, batch_dim={"x": 1}, shared="mask"))
    assert [tuple(piece["x"].shape) for piece in cut] == [(7, 2), (7, 2)]
    with pytest.raises(DescriptionError, match=r"a batch of yours with 7 samples cannot be cut.*entry 1 has the shape \(4,\)"):
        list(pieces((TIME_FIRST, torch.zeros(4)), 2))
    assert next(pieces((TIME_FIRST, torch.zeros(4)), 1))[0] is TIME_FIRST
