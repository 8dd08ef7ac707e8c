"""bucket_by=: batches of similar lengths; every sample once an epoch, at a place that is a function of seed and epoch."""

import functools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, Dataset, RandomSampler, Subset

from instep import Trainer, data, keys
from instep.data.buckets import Bucketed
from instep.data.share import Part
from instep.errors import DataError, DescriptionError

LENGTHS = np.random.default_rng(0).integers(1, 40, 150)


class Words(Dataset[tuple[Tensor, int]]):
    """Sequences of many lengths, with noise from the generators."""

    def __len__(self) -> int:
        return len(LENGTHS)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return torch.full((int(LENGTHS[index]),), float(index)) + 0.1 * torch.randn(()), index % 3


class Mean(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(1, 3)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        out: Tensor = self.head(((x * mask).sum(1) / mask.sum(1) / 150)[:, None])
        return out


def collate(samples: list[Any]) -> Any:
    x, y, mask = data.pad()(samples)
    return (x, mask), y


def make(source: Any = None, **options: Any) -> Trainer:
    keys.seed_all(keys.for_build(1))
    model = Mean()
    if source is None:
        source = data.source(Words(), collate_fn=collate, bucket_by=0)
    given_options: dict[str, Any] = {"epochs": 2, "batch_size": 16, "progress": False}
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    return Trainer(model, loss=cross_entropy, optimizer=optimizer, train=source, **(given_options | options))


def indices(trainer: Trainer, epoch: int = 0) -> list[list[int]]:
    return [batch.indices.tolist() for batch in trainer.run.loader.batches(epoch)]


@settings(max_examples=40, deadline=None)
@given(n=st.integers(1, 700), batch_size=st.integers(1, 9), seed=st.integers(0, 9), epoch=st.integers(0, 3), data_=st.data())
def test_every_sample_once_and_any_part_by_itself(n: int, batch_size: int, seed: int, epoch: int, data_: Any) -> None:
    lengths = np.random.default_rng(n).integers(1, 9, n)
    whole = Bucketed(lengths, batch_size).slice(seed, epoch, 0, n)
    assert sorted(whole.tolist()) == list(range(n))
    start = data_.draw(st.integers(0, n))
    stop = data_.draw(st.integers(start, n))
    assert Bucketed(lengths, batch_size).slice(seed, epoch, start, stop).tolist() == whole[start:stop].tolist()


def test_little_is_padded_and_batches_come_in_any_order() -> None:
    trainer = make()
    batches = indices(trainer)
    assert [len(batch) for batch in batches] == [16] * 9 + [6]
    padded = sum(16 * LENGTHS[batch].max() for batch in batches)
    plain = sum(16 * LENGTHS[batch].max() for batch in indices(make(data.source(Words(), collate_fn=collate))))
    assert padded < 0.7 * plain
    longest = [int(LENGTHS[batch].max()) for batch in batches[:9]]
    assert longest != sorted(longest)
    assert longest != sorted(longest, reverse=True)
    assert batches != indices(trainer, 1)
    assert batches == indices(make())
    assert batches != indices(make(seed=1))


def test_whatever_says_the_lengths() -> None:
    expected = indices(make())
    sources = {
        "lengths": {"bucket_by": LENGTHS},
        "a list": {"bucket_by": LENGTHS.tolist()},
        "a tensor": {"bucket_by": torch.from_numpy(LENGTHS)},
        "a function": {"bucket_by": lambda sample: len(sample[0])},
    }
    for name, said in sources.items():
        assert indices(make(data.source(Words(), collate_fn=collate, **said))) == expected, name
    table = {"words": [list(range(n)) for n in LENGTHS], "n": LENGTHS, "y": torch.arange(150) % 3}
    for name in ("words", "n"):
        mapping = data.source(table, target="y", bucket_by=name, collate_fn=data.pad())
        assert indices(make(mapping)) == expected, name


def test_a_held_out_share_takes_its_lengths_along() -> None:
    for by in (0, LENGTHS):
        trainer = make(data.source(Words(), collate_fn=collate, bucket_by=by), valid=0.2)
        origin = [trainer.run.loader.origin(batch.indices).numpy() for batch in trainer.run.loader.batches(0)]
        assert len(np.unique(np.concatenate(origin))) == 120
        assert np.mean([np.ptp(LENGTHS[one]) for one in origin]) < 10
    some = Subset(Words(), range(0, 150, 2))
    assert len(indices(make(data.source(some, collate_fn=collate, bucket_by=LENGTHS[::2])))) == 5


def test_workers_load_the_same_and_a_stopped_run_goes_on(tmp_path: Path) -> None:
    whole = make()
    whole.fit()
    for update in make(folder=tmp_path / "run").updates():
        if update.step == 6:
            break
    resumed = make(folder=tmp_path / "run", num_workers=2)
    resumed.fit()
    assert torch.equal(resumed.model.head.weight, whole.model.head.weight)
    with pytest.raises(DescriptionError, match=r"bucket_by: 0 -> nothing"):
        make(data.source(Words(), collate_fn=collate), folder=tmp_path / "run").fit()


def test_a_split_and_several_processes_have_the_same_batches() -> None:
    whole, split = make(), make(update_cycle=4)
    whole.fit()
    split.fit()
    assert torch.allclose(whole.model.head.weight, split.model.head.weight, atol=1e-6)
    feed, expected = whole.run.feed, indices(whole)
    loader = functools.partial(feed.train_loader, batch_size=16, device=torch.device("cpu"))
    shares = [loader(share=Part(rank, 3)) for rank in range(3)]
    parts = [[batch.indices.tolist() for batch in share.batches(0)] for share in shares]
    assert [[index for part in one for index in part] for one in zip(*parts, strict=True)] == expected


@pytest.mark.extras
def test_a_column_of_hugging_face() -> None:
    datasets = pytest.importorskip("datasets")
    table = datasets.Dataset.from_dict({"words": [list(range(n)) for n in LENGTHS], "y": [i % 3 for i in range(150)]})
    source = data.source(table, target="y", collate_fn=data.pad(), bucket_by="words")
    assert indices(make(source)) == indices(make())
    assert (
        data.folds(table, 3, stratify=table["y"]).numbers.tolist() == data.folds(Words(), 3, stratify=table["y"]).numbers.tolist()
    )


@pytest.mark.parametrize(
    ("make_source", "words"),
    [
        (lambda: data.source(Words(), bucket_by=0, sampler="balanced"), r"sampler= and bucket_by= both decide in which order"),
        (lambda: data.source(Words(), bucket_by=[1, 2]), r"lengths of shape \(2,\) and type int64, and train has 150 samples"),
        (lambda: data.source(Words(), bucket_by=LENGTHS * np.nan), r"bucket_by= has a length that is no finite number"),
        (lambda: data.source((torch.zeros(3, 2), torch.zeros(3)), bucket_by="n"), r"bucket_by='n' is no column of train; it has"),
        (lambda: data.source(lambda: iter([1]), bucket_by=0), r"bucket_by= orders samples by index, and train is an iterable"),
        (
            lambda: data.source(DataLoader(Words(), sampler=RandomSampler(Words(), True)), bucket_by=0),
            r"bucket_by= is given, and train is a DataLoader with a sampler of its own",
        ),
    ],
)
def test_what_cannot_be_meant(make_source: Any, words: str) -> None:
    with pytest.raises(DescriptionError, match=words):
        make(make_source())


def test_errors_name_the_sample_and_the_set() -> None:
    with pytest.raises(DataError, match=r"bucket_by='n' finds no length in sample 0 of train: KeyError\('n'\)"):
        make(data.source(Words(), bucket_by="n"))
    with pytest.raises(DescriptionError, match=r"valid has bucket_by=, and an evaluation takes samples in their own order"):
        make(valid=data.source(Words(), bucket_by=0))
