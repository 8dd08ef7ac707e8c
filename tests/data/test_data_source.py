"""data.source(…): what is said about one data set, and what another one takes over from it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.data import TensorDataset

from feeds import CPU, Counting, Squares, read
from instep import Trainer
from instep.data import pad, source, weighted
from instep.data.data_source import DataSource
from instep.data.feed import Feed
from instep.errors import DescriptionError
from instep.run.changes import require_same

X, Y = torch.arange(20.0).view(10, 2), torch.arange(10)


def doubled(sample: Any) -> Any:
    return 2 * sample[0], sample[1]


def negated(batch: Any) -> Any:
    return -batch[0], batch[1]


def inputs(feed: Feed, data: Any) -> Tensor:
    loader = feed.loader_for(data, batch_size=10, device=CPU)
    (batch,) = read(loader, range(1))
    x: Tensor = batch.data[0]
    return x


# --- What it is


def test_it_says_what_was_said() -> None:
    said = source((X, Y), transform=doubled, target="y", sampler=weighted([1.0] * 10).weights.tolist())
    assert repr(said).startswith("data.source((Tensor(10, 2), Tensor(10)), transform=doubled, sampler=[1.0, ")
    assert repr(said).endswith(", target='y')")
    assert repr(source(0.1)) == "data.source(0.1)"
    assert repr(source({"x": X}, collate_fn=pad())).startswith("data.source({'x': Tensor(10, 2)}, collate_fn=Padding(")
    assert repr(source([1, 2, 3, 4, 5])) == "data.source(list)"
    assert repr(source(Squares())) == "data.source(Squares)"
    with pytest.raises(AttributeError):
        said.transform = None  # type: ignore[misc]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("collate", r"data\.source\(\) has no argument collate=…; use collate_fn=\.$"),
        ("valid_transform", r"has no argument valid_transform=…; use valid=data\.source\(…, transform=…\)"),
        ("valid_batch_transform", r"use valid=data\.source\(…, batch_transform=…\)"),
        ("batched_fetch", "use nothing: a data set's own __getitems__ is used where it has one"),
        ("workers", "use num_workers= of the Trainer"),
        ("num_workers", "use num_workers= of the Trainer"),
        ("batch_size", "use batch_size= of the Trainer"),
        ("drop_last", "use drop_last= of the Trainer"),
        ("group_by_length", "use bucket_by="),
        ("shuffle", "training data is shuffled, other data is not; sampler= chooses another order"),
        (
            "augment",
            "no argument augment=…; it has transform, batch_transform, collate_fn, sampler, bucket_by, target, steps_per_epoch",
        ),
    ],
)
def test_names_that_it_does_not_have(name: str, words: str) -> None:
    with pytest.raises(DescriptionError, match=words):
        source((X, Y), **{name: None})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"transform": 3}, "transform=3 cannot be called; pass a function of a sample"),
        ({"batch_transform": 3}, "batch_transform=3 cannot be called; pass a function of a batch"),
        ({"collate_fn": "pad"}, "collate_fn='pad' cannot be called; pass a function of a list of samples"),
        ({"steps_per_epoch": 0}, "steps_per_epoch=0 must be a whole number, 1 or more"),
        ({"steps_per_epoch": True}, "steps_per_epoch=True must be a whole number, 1 or more"),
    ],
)
def test_what_cannot_be_said(said: Any, words: str) -> None:
    with pytest.raises(DescriptionError, match=words):
        source((X, Y), **said)
    with pytest.raises(DescriptionError, match=r"was given what data\.source\(\) returned; say everything in one call"):
        source(source((X, Y)))


# --- What goes where


def test_each_set_of_validation_data_has_its_own() -> None:
    feed = Feed((X, Y), {"plain": (X, Y), "twice": source((X, Y), transform=doubled)}, seed=0)
    loaders = feed.valid_loaders(batch_size=10, device=CPU)
    found = {name: next(loader.batches(0)).data[0] for name, loader in loaders.items()}
    assert torch.equal(found["valid/plain"], X)
    assert torch.equal(found["valid/twice"], 2 * X)
    assert feed.settings == {"valid/twice": {"transform": doubled}}
    columns = Feed({"x": X, "y": Y}, {"x": source(TensorDataset(X)), "y": source(TensorDataset(X))}, seed=0)
    assert list(columns.valid) == ["valid/x", "valid/y"]


def test_a_share_may_be_collated_in_its_own_way() -> None:
    lists = [[1] * (1 + index % 3) for index in range(10)]
    feed = Feed(source(lists, collate_fn=pad(give="lengths")), source(0.3, collate_fn=pad(give=None)), seed=0)
    ((rows, lengths),) = [batch.data for batch in feed.train_loader(batch_size=7, device=CPU).batches(0)]
    (held_out,) = [batch.data for batch in feed.valid_loaders(batch_size=3, device=CPU)["valid"].batches(0)]
    assert (len(rows), len(lengths), len(held_out)) == (7, 7, 3)
    assert int(lengths.sum() + (held_out != 0).sum()) == sum(map(len, lists))


def test_other_data_is_treated_like_validation_data() -> None:
    for valid in (
        source((X, Y), transform=doubled, batch_transform=negated),
        source(0.5, transform=doubled, batch_transform=negated),
    ):
        assert torch.equal(inputs(Feed(source((X, Y), transform=lambda sample: 1 / 0), valid, seed=0), (X, Y)), -2 * X)
    own = source((X, Y), transform=lambda sample: sample)
    assert torch.equal(inputs(Feed((X, Y), source((X, Y), transform=doubled), seed=0), own), X)
    several = Feed((X, Y), {"a": (X, Y), "b": source((X, Y), transform=doubled)}, seed=0)
    with pytest.raises(
        DescriptionError, match=r"the validation sets differ in their transform, so say .* data\.source\(data, tr"
    ):
        inputs(several, (X, Y))
    assert torch.equal(inputs(several, source((X, Y), transform=doubled)), 2 * X)


def test_an_endless_iterable_to_validate_on() -> None:
    def numbers() -> Iterator[tuple[int, int]]:
        number = 0
        while True:
            yield number, number
            number += 1

    feed = Feed((X, Y), source(numbers, steps_per_epoch=2), seed=0)
    loader = feed.valid_loaders(batch_size=3, device=CPU)["valid"]
    for _ in range(2):
        assert [batch.data[0].tolist() for batch in loader.batches(0)] == [[0, 1, 2], [3, 4, 5]]


def test_validation_takes_every_sample() -> None:
    with pytest.raises(DescriptionError, match="valid has a sampler=, and an evaluation takes every sample once; leave it out"):
        Feed((X, Y), source((X, Y), sampler=weighted([1.0] * 10)), seed=0)
    with pytest.raises(DescriptionError, match=r"valid\['a'\] has a sampler="):
        Feed((X, Y), {"a": source((X, Y), sampler=weighted([1.0] * 10))}, seed=0)
    with pytest.raises(DescriptionError, match="train has a sampler=, and an evaluation takes every sample once"):
        Feed((X, Y), source(0.5, sampler=weighted([1.0] * 10)), seed=0)
    with pytest.raises(DescriptionError, match="steps_per_epoch=3 is for iterables; valid has 10 samples"):
        Feed((X, Y), source((X, Y), steps_per_epoch=3), seed=0)
    assert len(Feed(Counting(4, 4), source(Counting(4)), seed=0).valid) == 1


# --- What a run keeps of it


def make(folder: Path, train: Any, valid: Any = None) -> Trainer:
    torch.manual_seed(0)
    model = torch.nn.Linear(2, 1)
    return Trainer(
        model,
        loss=lambda output, target: (output[:, 0] - target).square().mean(),
        optimizer=torch.optim.SGD(model.parameters(), lr=1e-4),
        train=train,
        valid=valid,
        epochs=2,
        batch_size=4,
        folder=folder,
        progress=False,
    )


@pytest.mark.filterwarnings("ignore:.*counts as a mean over samples")
def test_another_transform_is_another_run(tmp_path: Path) -> None:
    make(tmp_path / "run", source((X, Y), transform=doubled), source((X, Y), batch_transform=negated)).fit()
    settings = json.loads((tmp_path / "run" / "run.json").read_text())["settings"]
    assert settings["train"].keys() == {"transform"}
    assert settings["valid"].keys() == {"batch_transform"}
    with pytest.raises(DescriptionError, match=r"settings\.train\.transform: doubled -> nothing"):
        make(tmp_path / "run", (X, Y), source((X, Y), batch_transform=negated)).fit()
    with pytest.raises(
        DescriptionError, match=r"(?s)settings\.valid\.batch_transform: negated -> .*<lambda>.*allow_changes=\('batch_trans"
    ):
        make(tmp_path / "run", source((X, Y), transform=doubled), source((X, Y), batch_transform=lambda batch: batch)).fit()
    make(tmp_path / "run", source((X, Y), transform=doubled), source((X, Y), batch_transform=negated)).fit()


def test_what_an_earlier_version_kept_is_found_where_it_is_now() -> None:
    before: dict[str, Any] = {
        "settings": {"transform": "f", "collate": None, "valid_transform": "g", "target": None, "seed": 0},
        "data": {"train": {}, "valid/a": {}, "valid/b": {}},
    }
    sets = {"valid/a": {"transform": "g"}, "valid/b": {"transform": "g"}}
    now: dict[str, Any] = {"settings": {"train": {"transform": "f"}, "seed": 0, **sets}, "data": before["data"]}
    assert require_same(before, now, allowed=(), folder="run", longer_is_fine=False).notices == []
    with pytest.raises(DescriptionError, match=r"settings\.train\.transform: f -> h"):
        require_same(
            before,
            {**now, "settings": {**now["settings"], "train": {"transform": "h"}}},
            allowed=(),
            folder="run",
            longer_is_fine=False,
        )


def test_bare_data_says_nothing() -> None:
    assert DataSource(X).settings() == {}
    assert Feed((X, Y), 0.5, seed=0).settings == {}
