"""What the model will see, and what to be warned of; nothing is left behind."""

import random
import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils.data import Subset

from feeds import CPU, Counting, Noisy, Squares, assert_same
from instep.data import pad, source, weighted
from instep.data.feed import Feed
from instep.data.preview.preview import look
from instep.data.preview.summary import Preview
from instep.data.sources.data_names import DataNames

X, Y = torch.randn(60, 4, generator=torch.Generator().manual_seed(0)), torch.arange(60) % 3


def preview(train: Any, valid: Any = None, *, batch_size: int = 8, looked: Any = None, **said: Any) -> Preview:
    return look(Feed(source(train, **said), valid, seed=0), batch_size=batch_size, device=CPU, **(looked or {}))


def test_every_column_after_its_transforms() -> None:
    shown = preview(
        (X, Y),
        source(0.25, batch_transform=lambda batch: (-batch[0], batch[1])),
        transform=lambda sample: (sample[0] * 0 + 7, sample[1]),
    )
    train, valid = shown.sets
    assert (train.name, train.total, train.seen) == ("train", 45, 32)
    assert (valid.name, valid.total, valid.seen) == ("valid", 15, 15)
    x, y = train.columns
    assert (x.name, x.dtype, x.shape, x.low, x.high, x.mean, x.std) == ("[0]", "float32", (4,), 7, 7, 7, 0)
    assert (y.name, y.dtype, y.shape, y.low, y.high) == ("[1]", "int64", (), 0, 2)
    assert valid.columns[0].mean == pytest.approx(-X[valid_rows()].mean().item(), abs=1e-6)
    assert train.all_counted
    assert sum((train.classes or {}).values()) == 45
    (other,) = preview((X, Y), transform=lambda sample: (sample[0], sample[1] * 0)).sets
    assert (other.classes, other.all_counted) == ({0: 32}, False)
    (heavy,) = preview((X, Y), sampler=weighted(1.0 * (Y == 2))).sets
    assert (heavy.classes, heavy.all_counted) == ({2: 32}, False)


def valid_rows() -> Tensor:
    feed = Feed((torch.arange(60), Y), 0.25, seed=0)
    (batch,) = feed.valid_loaders(batch_size=100, device=CPU)["valid"].batches(0)
    rows: Tensor = batch.data[0]
    return rows


@dataclass
class Record:
    x: Tensor
    words: str


def test_every_structure() -> None:
    (train,) = preview([Record(torch.ones(2), f"word {i}") for i in range(9)]).sets
    assert [(column.name, column.dtype) for column in train.columns] == [(".x", "float32"), (".words", "text")]
    assert len(train.columns[1].words) == 3
    (train,) = preview({"image": X, "label": Y, "score": X[:, 0]}).sets
    assert [column.name for column in train.columns] == ["['image']", "['label']", "['score']"]
    assert (train.classes, train.all_counted) == ({0: 20, 1: 20, 2: 20}, True)
    (train,) = preview(X).sets
    assert (train.columns[0].name, train.classes) == ("", None)
    (train,) = preview({"x": X, "kind": Y}, target="kind").sets
    assert train.classes == {0: 20, 1: 20, 2: 20}
    (train,) = preview(Counting(20, 20)).sets
    assert (train.total, train.seen) == (20, 20)


class Animals(Squares):
    classes: tuple[str, ...] = ("cat", "dog")

    def __getitem__(self, index: int) -> Any:
        return torch.rand(1, 8, 8), index % 2


def test_names_that_the_data_has() -> None:
    shown = preview(Subset(Animals(), range(6)))
    assert shown.sets[0].names.classes == ("cat", "dog")
    assert set(shown.captions) == {"cat", "dog"}
    listed = Animals()
    listed.classes = tuple("abcdefghij")  # the class of each sample
    assert preview(listed).sets[0].names == DataNames()
    pandas = pytest.importorskip("pandas")
    kinds = pandas.Categorical(["new", "old", "old"] * 4, categories=["new", "none", "old"])
    frame = pandas.DataFrame({"a": X[:12, 0].numpy(), "b": 1.0, "kind": kinds})
    shown = preview(frame, 0.25, target="kind")
    assert [(each.columns[0].features, each.columns[1].called) for each in shown.sets] == [(("a", "b"), "kind")] * 2
    assert shown.sets[0].names.classes == ("new", "none", "old")
    assert "feature 'b' is the same in every sample of train[0] that was looked at" in shown.warnings
    assert "class none has no sample in train" in shown.warnings
    (wide,) = preview(frame, target="kind", transform=lambda sample: (sample[0].repeat(2), sample[1])).sets
    assert wide.columns[0].features == ()


def test_padding_and_tokens() -> None:
    samples = [([1] * (1 + index % 4), index % 2) for index in range(8)]
    for give in ("mask", "lengths"):
        shown = preview(samples, collate_fn=pad(give=give), looked={"decode": lambda ids: f"{len(ids)} tokens"})
        assert shown.sets[0].padding == pytest.approx(1 - 20 / 32)
        assert shown.sets[0].columns[0].shape == (4,)
        assert shown.sets[0].classes == {0: 4, 1: 4}
    shown = preview(samples, collate_fn=pad(), looked={"decode": lambda ids: f"{len(ids)} tokens"})
    assert set(shown.texts) <= {"1 tokens", "2 tokens", "3 tokens", "4 tokens"}
    assert len(set(shown.texts)) > 1
    shown = preview(samples, collate_fn=pad(), batch_size=2)
    assert shown.sets[0].columns[0].shape == (None,)
    named = preview([{"ids": [1] * n, "label": 0} for n in (1, 3)], collate_fn=pad())
    assert named.sets[0].padding == pytest.approx(2 / 6)
    assert preview((X, Y), looked={"decode": str}).texts == ()


# --- Pictures


@pytest.mark.parametrize(
    ("images", "shape"),
    [
        (torch.rand(10, 3, 8, 6), (8, 6, 3)),
        (torch.rand(10, 1, 8, 6), (8, 6, 3)),
        (torch.rand(10, 8, 6, 3), (8, 6, 3)),
        (torch.rand(10, 8, 6, 1), (8, 6, 3)),
        (torch.rand(10, 8, 9), (8, 9, 3)),
        (torch.randint(256, (10, 3, 8, 6)).to(torch.uint8), (8, 6, 3)),
    ],
    ids=["first 3", "first 1", "last 3", "last 1", "none", "bytes"],
)
def test_images_either_way_round(images: Tensor, shape: tuple[int, ...]) -> None:
    shown = preview((images, torch.arange(10)), batch_size=10)
    assert [picture.shape for picture in shown.pictures] == [shape] * 10
    assert sorted(shown.captions) == [str(label) for label in range(10)]
    assert shown.shown_as == ("as they are, 0 to 255" if images.dtype == torch.uint8 else "as they are, 0 to 1")
    first = int(shown.captions[0])
    scale = 1 if images.dtype == torch.uint8 else 255
    assert shown.pictures[0].max() == round(float(images[first].max()) * scale)
    assert preview((torch.rand(10, 3, 2, 2), torch.arange(10))).pictures == ()


class Normalize:
    """As torchvision's looks from outside."""

    def __init__(self) -> None:
        self.mean, self.std = [0.5, 0.5, 0.5], [0.25, 0.25, 0.25]

    def __call__(self, sample: Any) -> Any:
        return (sample[0] - 0.5) / 0.25, sample[1]


def test_images_are_denormalised() -> None:
    images = torch.rand(10, 3, 8, 8)
    shown = preview((images, torch.arange(10)), batch_size=10, transform=Normalize())
    assert shown.shown_as == "de-normalised with mean 0.5, 0.5, 0.5 and std 0.25, 0.25, 0.25"
    original = (images[int(shown.captions[0])] * 255).round().permute(1, 2, 0).numpy()
    assert np.abs(shown.pictures[0].astype(int) - original).max() <= 1
    normalised = (images - 0.5) / 0.25
    told = preview((normalised, torch.arange(10)), batch_size=10, looked={"mean": (0.5,), "std": (0.25,)})
    assert np.array_equal(told.pictures[0], shown.pictures[0])
    assert preview((normalised, torch.arange(10))).shown_as.startswith("stretched from -")
    inside = [Normalize()]
    nested = preview((images, torch.arange(10)), batch_size=10, transform=lambda sample: (*inside[0](sample),))
    assert nested.shown_as == shown.shown_as


# --- Warnings


@pytest.mark.parametrize(
    ("train", "valid", "words"),
    [
        (
            (torch.randint(256, (9, 4)).to(torch.uint8), Y[:9]),
            None,
            r"train\[0\] is uint8, \d+ to \d+; models expect floats near 1",
        ),
        ((X * 100, Y), None, r"train\[0\] is not normalised: mean .*, std .*; models expect values near 1"),
        ((torch.full((9, 2, 2), 0.5), Y[:9]), None, r"train\[0\] has one value throughout, 0\.5"),
        ((X * torch.tensor([1.0, 0, 1, 0]), Y), None, r"features 1, 3 are the same in every sample of train\[0\]"),
        ((X * torch.tensor([1.0, 0, 1, 1]), Y), None, r"feature 1 is the same in every sample of train\[0\]"),
        ((X.where(X < 1, torch.inf), Y), None, r"train\[0\] has \d+ values that are inf or nan"),
        ((X, Y + (Y > 0)), None, "class 1 of 0 to 3 has no sample in train"),
        ((X, Y), (X + 1, Y + 2), "the classes 3, 4 of valid have no sample in train"),
        ((X, Y), (X[7:11], Y[7:11]), "4 of 4 samples of valid and 60 of train that were compared are identical"),
        (
            (X, Y),
            (torch.cat([X[:1], X[1:5] + 1]), Y[:5]),
            "1 of 5 samples of valid and 60 of train that were compared is identical",
        ),
        (Subset(Squares(), [1, 2, 3]), Squares(), "3 of 10 samples of valid and 3 of train that were compared are identical"),
    ],
)
def test_what_is_warned_of(train: Any, valid: Any, words: str) -> None:
    assert any(re.search(words, warning) for warning in preview(train, valid).warnings)


def test_parts_of_one_data_set_are_compared_by_index() -> None:
    """Their samples may be other each time they are loaded."""
    data = Noisy(60)
    shown = preview(Subset(data, range(40)), Subset(data, range(35, 60)))
    assert shown.warnings == ("5 samples of one data set are in train and in valid: what is evaluated on was trained on",)
    assert preview(data, Subset(data, [3])).warnings[0].startswith("1 sample of one data set is in train and in valid")
    assert preview(Subset(data, range(40)), Subset(data, range(40, 60))).warnings == ()
    assert preview(data, 0.5).warnings == ()


def test_sound_data_is_not_warned_of() -> None:
    assert preview((X, Y), 0.2).warnings == ()
    assert preview((X, torch.arange(60) * 1000)).warnings == ()  # numbers, not classes with gaps


# --- No trace


class Stepping(Counting):
    at = 0

    def __iter__(self) -> Any:
        while self.at < self.samples:
            self.at += 1
            yield self.at - 1
        self.at = 0

    def state_dict(self) -> dict[str, int]:
        return {"at": self.at}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.at = state["at"]


def test_nothing_is_left_behind() -> None:
    data = Noisy(24)
    said = source(data, batch_transform=lambda batch: (batch[0] + torch.rand(1), *batch[1:]))
    feed, plain = Feed(said, 0.25, seed=0, num_workers=2), Feed(said, 0.25, seed=0)
    expected = list(plain.train_loader(batch_size=4, device=CPU).batches(0))
    loader = feed.train_loader(batch_size=4, device=CPU)
    states = torch.random.get_rng_state(), random.getstate()
    got = []
    for batch in loader.batches(0):
        got.append(batch)
        look(feed, batch_size=4, device=CPU)
    loader.close()
    assert_same(got, expected)
    assert torch.equal(torch.random.get_rng_state(), states[0])
    assert random.getstate() == states[1]
    stream = Stepping(10, 10)
    stream.at = 3
    look(Feed(source(stream, steps_per_epoch=3), seed=0), batch_size=2, device=CPU)
    assert stream.at == 3
