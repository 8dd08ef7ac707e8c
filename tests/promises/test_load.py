"""Promise 4, load: any number of loader workers gives the same samples with the same augmentation, from wherever one begins."""

import functools
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.utils.data import ConcatDataset, Dataset, IterableDataset, Subset

from feeds import Noisy, NoisyStream, assert_equal, assert_same, loader, read
from instep import Trainer, keys
from instep.data import class_balanced, pad, source, weighted
from instep.data.loading.loader import Batch, Loader
from instep.data.sources.recognize import Reading, as_data
from tiny import CLASSES, FEATURES, TASKS


@dataclass
class Sample:
    x: Tensor
    words: str
    label: int


class Rich(Dataset[Any]):
    """Augmentation from every generator, threads in a sum, text, and sequences of random length."""

    targets = tuple(index % 3 for index in range(46))

    def __len__(self) -> int:
        return 46

    def __getitem__(self, index: int) -> Any:
        length = random.randint(1, 5)
        noise = torch.randn(7) * np.random.uniform(0.5, 2) + torch.randn(512, 40).sum()
        return {"x": noise, "tokens": torch.randint(9, (length,)), "words": f"{index} {random.random()}", "y": index % 3}


def jitter(sample: Any) -> Any:
    return {**sample, "x": sample["x"] + random.gauss(0, 1) + np.random.standard_normal()}


def noisy_sum(batch: Any) -> Any:
    return {**batch, "x": batch["x"] + torch.randn(1)}


def rich(**options: Any) -> Loader:
    source = as_data(Rich(), "train", Reading(collate=pad())).transformed(jitter)
    return loader(source, **({"batch_transform": noisy_sum, "batch_size": 6} | options))


@pytest.fixture(scope="module")
def alone() -> list[Batch]:
    """Three epochs, loaded in this process."""
    return read(rich(epochs=3), range(3))


@pytest.mark.parametrize("workers", [1, 2, 3, 8])
def test_any_number_of_workers(workers: int, alone: list[Batch]) -> None:
    assert_same(read(rich(workers=workers, epochs=3), range(3)), alone)


@pytest.mark.parametrize(("first", "second"), [(0, 2), (2, 0), (2, 3), (3, 0)])
@pytest.mark.parametrize("cut", [(0, 3), (1, 0), (1, 7)])
def test_another_number_after_an_interruption(first: int, second: int, cut: tuple[int, int], alone: list[Batch]) -> None:
    """Stopped in the middle of a run, resumed by other workers: the batches that never stopped."""
    per_epoch = len(alone) // 3
    before, after = rich(workers=first, epochs=3), rich(workers=second, epochs=3)
    epoch, index = cut
    got = [batch for whole in range(epoch) for batch in before.batches(whole)]
    for batch in before.batches(epoch):
        if batch.index == index:
            break
        got.append(batch)
    before.close()
    got += after.batches(epoch, index)
    got += [batch for whole in range(epoch + 1, 3) for batch in after.batches(whole)]
    after.close()
    assert len(got) == 3 * per_epoch
    assert_same(got, alone)


def test_others_may_read_in_between(alone: list[Batch]) -> None:
    """A look at the first batches while an epoch goes on: both see what they would see alone."""
    per_epoch = len(alone) // 3
    made = rich(workers=2, epochs=3)
    got = []
    for batch in made.batches(1):
        got.append(batch)
        if batch.index in (0, 4):
            assert_same([next(made.batches(0))], alone[:1])
    made.close()
    assert_same(got, alone[per_epoch : 2 * per_epoch])


SAMPLERS: dict[str, Any] = {
    "shuffled": lambda: None,
    "weighted": lambda: weighted(np.arange(46) % 5),
    "once": lambda: weighted(1 + np.arange(46) % 5, replacement=False),
    "balanced": class_balanced,
    "own": lambda: lambda epoch, seed: torch.randperm(46)[:30],
}


@settings(max_examples=12, deadline=None)
@given(
    workers=st.sampled_from([1, 2, 3]),
    batch_size=st.integers(1, 20),
    seed=st.integers(0, 2**64 - 1),
    epoch=st.integers(0, 1000),
    sampler=st.sampled_from(sorted(SAMPLERS)),
    drop_last=st.booleans(),
    start=st.integers(0, 2),
)
def test_whatever_the_order(
    workers: int, batch_size: int, seed: int, epoch: int, sampler: str, drop_last: bool, start: int
) -> None:
    options = {"batch_size": batch_size, "seed": seed, "drop_last": drop_last}
    here = list(rich(sampler=SAMPLERS[sampler](), **options).batches(epoch))
    there = rich(sampler=SAMPLERS[sampler](), workers=workers, **options)
    got = list(there.batches(epoch, start))
    there.close()
    assert_same(got, here[start:])


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(
    workers=st.sampled_from([1, 2, 3, 8]),
    batch_size=st.integers(1, 50),
    seed=st.integers(0, 2**64 - 1),
    epoch=st.integers(0, 2**40),
    sampler=st.sampled_from(sorted(SAMPLERS)),
    start=st.integers(0, 5),
)
def test_whatever_the_order_at_length(workers: int, batch_size: int, seed: int, epoch: int, sampler: str, start: int) -> None:
    options = {"batch_size": batch_size, "seed": seed}
    here = list(rich(sampler=SAMPLERS[sampler](), **options).batches(epoch))
    there = rich(sampler=SAMPLERS[sampler](), workers=workers, **options)
    got = list(there.batches(epoch, start))
    there.close()
    assert_same(got, here[start:])


def test_the_size_of_a_batch_does_not_change_a_sample() -> None:
    """Each sample has the draws of its place, however the places are cut into batches."""
    source = as_data(Noisy(24), "train")
    small, large = (read(loader(source, batch_size=size, workers=workers)) for size, workers in ((3, 2), (8, 0)))
    for column in range(4):
        one, other = (torch.cat([batch.data[column] for batch in batches]) for batches in (small, large))
        assert torch.equal(one, other)


@pytest.mark.parametrize(
    "data",
    [
        Subset(Noisy(30), range(2, 30, 2)),
        Subset(Noisy(30), [5, 3, 29, 11, 0]),
        ConcatDataset([Noisy(7), Noisy(9)]),
        [Sample(torch.ones(2), "a", 1), Sample(torch.zeros(2), "b", 2), Sample(torch.zeros(2), "c", 3)],
        (torch.arange(9), torch.arange(9)),
    ],
    ids=["range", "subset", "concatenated", "records", "tensors"],
)
def test_every_kind_of_data(data: Any) -> None:
    source = as_data(data, "train").transformed(functools.partial(_with_a_draw))
    assert_records_equal(read(loader(source, workers=2)), read(loader(source)))


def _with_a_draw(sample: Any) -> Any:
    return sample, random.random()


def assert_records_equal(one: list[Batch], other: list[Batch]) -> None:
    """Dataclasses hold tensors, which == cannot compare."""

    def plain(batch: Batch) -> Batch:
        record, draw = batch.data
        return batch._replace(data=((vars(record) if isinstance(record, Sample) else record), draw))

    assert_same([plain(batch) for batch in one], [plain(batch) for batch in other])


@pytest.mark.parametrize("steps", [None, 5])
def test_an_iterable_by_one_worker(steps: int | None) -> None:
    here, there = (
        read(loader(as_data(NoisyStream(17, 17), "train"), workers=workers, steps_per_epoch=steps, epochs=3), range(3))
        for workers in (0, 1)
    )
    assert_same(here, there)


# --- A whole run


class Pairs(Dataset[Any]):
    """Inputs with an augmentation from every generator, and their classes."""

    def __init__(self) -> None:
        self.x, self.y = TASKS[0].draw(26, seed=0, dtype=torch.float32)

    def __len__(self) -> int:
        return 26

    def __getitem__(self, index: int) -> Any:
        noise = 0.1 * torch.randn(FEATURES) + random.random() * 0.1 + np.random.rand() * 0.1
        return self.x[index] + noise.float(), self.y[index]


class Stepping(IterableDataset[Any]):
    """The same as a stream that says where it stands."""

    def __init__(self) -> None:
        self.data, self.at = Pairs(), 0

    def __iter__(self) -> Iterator[Any]:
        while self.at < 26:
            self.at += 1
            yield self.data[self.at - 1]
        self.at = 0

    def state_dict(self) -> dict[str, int]:
        return {"at": self.at}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.at = state["at"]


def trained(
    data: Any, *legs: tuple[int, int], folder: Path | None = None, steps_per_epoch: int | None = None
) -> dict[str, Tensor]:
    """The weights after 3 epochs, in legs of (workers, last step): each leg is a new Trainer that goes on with the run."""
    model = nn.Module()
    for workers, last in legs:
        keys.seed_all(keys.for_build(0))
        model = nn.Sequential(nn.Linear(FEATURES, 8), nn.Dropout(0.3), nn.Linear(8, CLASSES))
        trainer = Trainer(
            model,
            loss=nn.functional.cross_entropy,
            optimizer=torch.optim.AdamW(model.parameters(), lr=1e-2),
            train=source(data(), steps_per_epoch=steps_per_epoch),
            valid=Pairs(),
            metrics="accuracy",
            epochs=3,
            batch_size=8,
            num_workers=workers,
            folder=folder,
            checkpoint_every=1 if folder else None,
            progress=False,
        )
        for update in trainer.updates():
            if update.step == last:
                break
    return model.state_dict()


@pytest.mark.parametrize("workers", [1, 3])
def test_the_weights_of_a_run(workers: int) -> None:
    assert_equal(dict(trained(Pairs, (workers, 99))), dict(trained(Pairs, (0, 99))))


@pytest.mark.parametrize("legs", [((0, 4), (2, 99)), ((3, 2), (0, 7), (2, 99))], ids=str)
def test_the_weights_of_a_run_in_legs(legs: Any, tmp_path: Path) -> None:
    """Interrupted inside an epoch and resumed from its folder with another number of workers."""
    assert_equal(dict(trained(Pairs, *legs, folder=tmp_path / "run")), dict(trained(Pairs, (0, 99))))


@pytest.mark.parametrize("legs", [((0, 4), (1, 99)), ((1, 2), (0, 7), (1, 99))], ids=str)
def test_a_stream_goes_on_by_its_state(legs: Any, tmp_path: Path) -> None:
    alone = trained(Stepping, (0, 99), steps_per_epoch=4)
    assert_equal(dict(trained(Stepping, *legs, folder=tmp_path / "run", steps_per_epoch=4)), dict(alone))
