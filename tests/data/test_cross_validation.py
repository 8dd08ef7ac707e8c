"""folds(): every sample in one fold, classes and groups as asked, and data of every kind comes as what it is."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, Dataset, TensorDataset

from instep import Trainer, data
from instep.data import folds
from instep.data.data_source import DataSource
from instep.errors import DescriptionError, Notice

pd: Any = pytest.importorskip("pandas")
X = torch.arange(30.0).reshape(30, 1) + torch.zeros(30, 2)
Y = torch.arange(30) % 3


@settings(max_examples=40, deadline=None)
@given(n=st.integers(2, 200), seed=st.integers(0, 5), drawn=st.data())
def test_every_sample_is_validated_once(n: int, seed: int, drawn: Any) -> None:
    k = drawn.draw(st.integers(2, min(n, 9)))
    found = folds(torch.arange(n), k, seed=seed)
    assert len(found) == k
    kept = [fold.valid.tolist() for fold in found]
    assert sorted(index for one in kept for index in one) == list(range(n))
    sizes = [len(one) for one in kept]
    assert max(sizes) - min(sizes) <= 1
    for fold, held in zip(found, kept, strict=True):
        assert sorted(fold.train.tolist() + held) == list(range(n))


@settings(max_examples=30, deadline=None)
@given(labels=st.lists(st.sampled_from("abc"), min_size=6, max_size=90), k=st.integers(2, 5))
@pytest.mark.filterwarnings("ignore::instep.errors.Notice")
def test_every_class_is_shared_out(labels: list[str], k: int) -> None:
    found = folds(torch.arange(len(labels)), k, stratify=labels)
    kept = np.array(labels)
    for label in set(labels):
        counts = [int((kept[found.numbers == fold] == label).sum()) for fold in range(k)]
        assert max(counts) - min(counts) <= 1
    sizes = np.bincount(found.numbers)
    assert sizes.max() - sizes.min() <= 1


@settings(max_examples=30, deadline=None)
@given(groups=st.lists(st.integers(0, 9), min_size=20, max_size=90), k=st.integers(2, 4), is_stratified=st.booleans())
def test_groups_stay_together(groups: list[int], k: int, is_stratified: bool) -> None:
    if len(set(groups)) < k:
        with pytest.raises(DescriptionError, match=rf"folds\(k={k}\) needs a group for each fold, and groups= has"):
            folds(torch.arange(len(groups)), k, groups=groups)
        return
    labels = np.arange(len(groups)) % 2
    numbers = folds(torch.arange(len(groups)), k, groups=groups, stratify=labels if is_stratified else False).numbers
    for group in set(groups):
        assert len(set(numbers[np.array(groups) == group].tolist())) == 1
    assert len(set(numbers.tolist())) == k


def test_groups_are_dealt_evenly_and_classes_with_them() -> None:
    groups = np.repeat(np.arange(20), 3)
    assert np.bincount(folds(torch.arange(60), 4, groups=groups).numbers).tolist() == [15] * 4
    of_class = (np.arange(20) % 4 == 0).repeat(3)  # whole groups of a rare class: 5 of 20
    numbers = folds(torch.arange(60), 5, groups=groups, stratify=of_class).numbers
    assert [int(of_class[numbers == fold].sum()) for fold in range(5)] == [3] * 5
    assert np.bincount(numbers).tolist() == [12] * 5


def test_the_seed_decides_and_nothing_else() -> None:
    numbers = folds((X, Y), 3).numbers
    assert numbers.tolist() == folds((X, Y), 3).numbers.tolist()
    assert numbers.tolist() != folds((X, Y), 3, seed=1).numbers.tolist()
    assert folds((X, Y), 4, shuffle=False).numbers.tolist() == sorted([*range(4)] * 7 + [0, 1])
    assert folds((X, Y), 3).numbers.tolist() == folds(TensorDataset(X, Y), 3).numbers.tolist()
    assert repr(folds((X, Y), 4)) == "4 folds of 7 to 8 of 30 samples"


@dataclass
class Record:
    x: Tensor
    y: Tensor


class Numbers(Dataset[tuple[Tensor, Tensor]]):
    targets = Y.tolist()

    def __len__(self) -> int:
        return 30

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return X[index], Y[index]


FRAME = pd.DataFrame({"a": X[:, 0].numpy(), "b": X[:, 1].numpy(), "y": Y.numpy()}, index=np.arange(100, 130))
KINDS: dict[str, Any] = {
    "tensors": (X, Y),
    "arrays": (X.numpy(), Y.numpy()),
    "a mapping": data.source({"x": X, "y": Y}, target="y"),
    "nested": ((X[:, :1], X[:, 1:]), Y),
    "a TensorDataset": TensorDataset(X, Y),
    "a Dataset": Numbers(),
    "a list": [(X[i], Y[i]) for i in range(30)],
    "a frame": data.source(FRAME, target="y"),
    "a frame and its target": (FRAME[["a", "b"]], FRAME["y"]),
}


class Two(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(2, 3)

    def forward(self, *parts: Tensor, x: Tensor | None = None) -> Tensor:
        out: Tensor = self.head((torch.cat(parts, 1) if x is None else x) / 30)
        return out


@pytest.mark.parametrize("kind", KINDS)
def test_data_of_every_kind_trains(kind: str) -> None:
    """The same folds, whatever the data comes in; and the Trainer takes both parts as they are."""
    found = folds(KINDS[kind], 3)
    assert found.numbers.tolist() == folds((X, Y), 3).numbers.tolist()
    train, valid = found[1]
    model = Two()
    trainer = Trainer(
        model,
        loss=cross_entropy,
        optimizer=torch.optim.SGD(model.parameters()),
        train=train,
        valid=valid,
        epochs=1,
        progress=False,
    )
    assert trainer.samples == 20
    assert "valid/loss" in (trainer.fit().last or {})
    loaded = next(iter(trainer.run.valid_loaders["valid"].batches(0))).data
    assert loaded[1].tolist() == Y[found.numbers == 1].tolist()


def test_parts_are_of_the_kind_that_was_passed() -> None:
    assert isinstance(folds((X, Y), 3)[0].train, tuple)
    assert isinstance(folds(FRAME, 3)[0].valid, pd.DataFrame)
    assert folds(FRAME, 3)[0].valid.index.tolist() == (np.flatnonzero(folds(FRAME, 3).numbers == 0) + 100).tolist()
    assert isinstance(folds(Record(X, Y), 3)[0].train, Record)
    assert isinstance(folds([*range(9)], 3)[-1].valid, list)
    assert [len(fold.valid[0]) for fold in folds((X, Y), 4)[1:3]] == [8, 7]


def test_a_source_keeps_what_it_says() -> None:
    weights = np.arange(1.0, 31.0)
    train, valid = folds(
        data.source((X, Y), transform=lambda sample: sample, sampler=data.weighted(weights), collate_fn=list), 3
    )[0]
    assert isinstance(train, DataSource)
    assert isinstance(valid, DataSource)
    assert train.sampler.weights.tolist() == weights[folds((X, Y), 3).numbers != 0].tolist()
    assert (valid.transform, valid.sampler, valid.collate_fn) == (None, None, list)
    buckets = folds(data.source((X, Y), bucket_by=weights), 3)[0].train
    assert len(buckets.bucket_by) == 20
    with pytest.raises(DescriptionError, match=r"folds\(\) leaves out samples, and sampler= names samples of all of them"):
        folds(data.source((X, Y), sampler=lambda epoch, seed: [0]), 3)


def test_labels_are_found_where_that_costs_nothing() -> None:
    for kind in ((X, Y), Numbers(), KINDS["a frame"], KINDS["a mapping"]):
        numbers = folds(kind, 5, stratify=True).numbers
        assert [[int((Y[numbers == f] == c).sum()) for c in range(3)] for f in range(5)] == [[2, 2, 2]] * 5
    with pytest.raises(DescriptionError, match=r"stratify=True cannot find the labels without loading the data; pass them"):
        folds(KINDS["a list"], 5, stratify=True)
    with pytest.warns(Notice, match=r"the rarest class has 2 samples, fewer than the 5 folds: some folds have none of it"):
        folds((X, Y), 5, stratify=np.arange(30) < 2)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: folds((X, Y), 1), r"folds\(k=1\) must be a whole number from 2 to the number of samples, 30"),
        (lambda: folds((X, Y), 31), r"folds\(k=31\) must be a whole number"),
        (lambda: folds((X, Y), 3, stratify=[1, 2]), r"stratify= has the shape \(2,\), and there are 30 samples"),
        (lambda: folds((X, Y), 3, groups=[1]), r"groups= has the shape \(1,\), and there are 30 samples"),
        (lambda: folds((X, Y), 3, shuffle=False, stratify=True), r"shuffle=False takes the folds as the data stands"),
        (
            lambda: folds(DataLoader(Numbers()), 3),
            r"folds\(\) takes the data of a DataLoader, not the DataLoader; pass loader.dataset",
        ),
        (lambda: folds(Path("x.npy"), 3), r"folds\(\) takes data in memory or a Dataset, and this lies in a file"),
        (lambda: folds(lambda: iter([1]), 3), r"folds\(\) chooses samples by index, and this is an iterable"),
    ],
)
def test_what_cannot_be_cut(call: Any, words: str) -> None:
    with pytest.raises(DescriptionError, match=words):
        call()
