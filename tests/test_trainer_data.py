"""The Trainer on every kind of data: what is loaded, by whom and from where on never changes what is trained."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils.data import ConcatDataset, DataLoader, Dataset, IterableDataset, TensorDataset

import tiny
from instep import Trainer
from instep.data import class_balanced, source, weighted
from instep.errors import DataError, DescriptionError, Notice, is_instep_file
from tiny import FEATURES, TASKS

X, Y = TASKS[0].draw(40, seed=0, dtype=torch.float32)


class Augmented(Dataset[tuple[Tensor, Tensor]]):
    """Draws from each of the three generators for every sample."""

    def __len__(self) -> int:
        return len(X)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        noise = 0.1 * torch.randn(FEATURES) + random.random() * 0.1 + np.random.rand() * 0.1
        return X[index] + noise.float(), Y[index]


class Numbers(IterableDataset[tuple[Tensor, Tensor]]):
    """A stream with a state of its own."""

    def __init__(self) -> None:
        self.place = 0

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        while self.place < len(X):
            self.place += 1
            yield X[self.place - 1] + 0.1 * torch.randn(FEATURES), Y[self.place - 1]
        self.place = 0

    def __len__(self) -> int:
        return len(X)

    def state_dict(self) -> dict[str, int]:
        return {"place": self.place}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.place = state["place"]


def make(train: Any, **changes: Any) -> Trainer:
    return tiny.make(**({"train": train, "batch_size": 12, "log_every": 1} | changes))


def trained(trainer: Trainer) -> Tensor:
    trainer.fit()
    return tiny.weights(trainer.model)


def test_any_number_of_workers_trains_the_same() -> None:
    alone = trained(make(Augmented(), valid=Augmented(), num_workers=0))
    for workers in (1, 3):
        assert torch.equal(trained(make(Augmented(), valid=Augmented(), num_workers=workers)), alone)


def test_workers_may_change_where_a_run_goes_on(tmp_path: Path) -> None:
    whole = trained(make(Augmented(), folder=tmp_path / "whole"))
    for workers, stop in ((2, 1), (0, 5), (3, 9)):
        for update in make(Augmented(), folder=tmp_path / "run", num_workers=workers).updates():
            if update.step == stop:
                break
    assert torch.equal(trained(make(Augmented(), folder=tmp_path / "run", num_workers=2)), whole)


def test_kinds_of_data_train_the_same() -> None:
    alone = trained(make((X, Y)))
    halves: ConcatDataset[Any] = ConcatDataset([TensorDataset(X[:15], Y[:15]), TensorDataset(X[15:], Y[15:])])
    assert torch.equal(trained(make(TensorDataset(X, Y))), alone)
    assert torch.equal(trained(make(halves)), alone)
    loader = DataLoader(TensorDataset(X, Y), batch_size=4, shuffle=True)
    assert torch.equal(trained(make(loader, batch_size=None, update_cycle=3)), trained(make((X, Y), update_cycle=3)))


def test_a_subclass_keeps_its_own_items() -> None:
    class Zeroed(TensorDataset):
        def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
            x, y = self.tensors[0][index], self.tensors[1][index]
            return x * 0, y

    assert torch.equal(trained(make(Zeroed(X, Y))), trained(make((X * 0, Y))))


def test_transforms_are_for_training_or_for_validation() -> None:
    def doubled(sample: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        return sample[0] * 2, sample[1]

    assert torch.equal(trained(make(source((X, Y), transform=doubled))), trained(make((X * 2, Y))))
    assert torch.equal(trained(make(source((X, Y), batch_transform=doubled))), trained(make((X * 2, Y))))
    plain, seen = make((X, Y), valid=(X * 2, Y)), make((X, Y), valid=source((X, Y), transform=doubled))
    assert plain.evaluate()["valid/loss"] == pytest.approx(seen.evaluate()["valid/loss"], rel=1e-6)


@pytest.mark.parametrize("sampler", [weighted(torch.arange(1.0, 41.0)), class_balanced(Y), lambda epoch, seed: list(range(20))])
def test_a_sampler_is_a_function_of_position(sampler: Any, tmp_path: Path) -> None:
    whole = trained(make(source(Augmented(), sampler=sampler), folder=tmp_path / "whole"))
    for update in make(source(Augmented(), sampler=sampler), folder=tmp_path / "run").updates():
        if update.step == 2:
            break
    assert torch.equal(trained(make(source(Augmented(), sampler=sampler), folder=tmp_path / "run")), whole)


@pytest.mark.parametrize("workers", [0, 1])
def test_a_stream_goes_on_by_its_own_state(workers: int, tmp_path: Path) -> None:
    whole = trained(make(Numbers(), folder=tmp_path / "whole", num_workers=0))
    for stop in (2, 5):
        for update in make(Numbers(), folder=tmp_path / "run", num_workers=workers).updates():
            if update.step == stop:
                break
    assert torch.equal(trained(make(Numbers(), folder=tmp_path / "run", num_workers=workers)), whole)


def test_a_generator_function_goes_on_by_skipping(tmp_path: Path) -> None:
    def endless() -> Iterator[tuple[Tensor, Tensor]]:
        while True:
            yield from zip(X, Y, strict=True)

    def trainer(folder: str) -> Trainer:
        return make(source(endless, steps_per_epoch=4), folder=tmp_path / folder)

    whole = trained(trainer("whole"))
    for update in trainer("run").updates():
        if update.step == 5:
            break
    with pytest.warns(Notice, match="train cannot say where it stands"):
        assert torch.equal(trained(trainer("run")), whole)


def test_data_that_does_not_fit() -> None:
    with pytest.raises(
        DescriptionError, match="batch_size=12 is given, and train is a DataLoader with batch_size=4; leave one out"
    ):
        make(DataLoader(TensorDataset(X, Y), batch_size=4))
    with pytest.raises(DescriptionError, match="train gave no sample"):
        make(lambda: iter([]))
    with pytest.raises(DescriptionError, match=r"valid=0\.1 takes a share of the training data, and train is an iterable"):
        make(Numbers(), valid=0.1)
    with pytest.raises(DescriptionError, match="num_workers=-1 must be a whole number"):
        make((X, Y), num_workers=-1)


def test_the_plan_tells_of_a_stream() -> None:
    assert "an iterable of 40 samples" in repr(make(Numbers()))


# --- Iterables that do not say how long they are


def pairs() -> Iterator[tuple[Tensor, Tensor]]:
    yield from zip(X + 0.1 * torch.randn(1, FEATURES), Y, strict=True)


class Rows(IterableDataset[tuple[Tensor, Tensor]]):
    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        return pairs()


class Forgetful(Rows):
    """It goes on where it stood, also when it is read again; only its state brings it back."""

    def __init__(self) -> None:
        self.place = 0

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        while self.place < len(X):
            self.place += 1
            yield X[self.place - 1], Y[self.place - 1]

    def state_dict(self) -> dict[str, int]:
        return {"place": self.place}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.place = state["place"]


def endless() -> Iterator[tuple[Tensor, Tensor]]:
    while True:
        yield from pairs()


def test_a_finite_iterable_is_counted() -> None:
    class Sized(Rows):
        def __len__(self) -> int:
            return len(X)

    alone = trained(make(Sized()))
    for train in (pairs, Rows(), source(pairs)):
        trainer = make(train)
        assert (trainer.samples, trainer.steps_per_epoch, trainer.total_steps) == (40, 4, 12)
        assert torch.equal(trained(trainer), alone)
    assert torch.equal(trained(make(Forgetful())), trained(make(source(Forgetful(), transform=lambda sample: sample))))
    assert make(pairs, epochs=None, max_steps=7).steps_per_epoch == 4


def test_a_longer_one_is_one_epoch_of_a_run_that_says_its_steps(tmp_path: Path) -> None:
    def trainer(folder: str, max_steps: int) -> Trainer:
        return make(endless, epochs=None, max_steps=max_steps, folder=tmp_path / folder)

    assert trainer("none", 9).steps_per_epoch == 9
    assert make(pairs, epochs=None, max_steps=3).steps_per_epoch == 3  # 36 of 40 samples
    whole = trained(trainer("whole", 9))
    trained(trainer("run", 5))
    with pytest.warns(Notice, match="train cannot say where it stands"):
        assert torch.equal(trained(trainer("run", 9)), whole)


def test_iterables_without_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("instep.data.feed.MOST_COUNTED", 1000)
    monkeypatch.setattr("instep.data.sources.stream.PATIENCE_S", 0.0)
    with (
        pytest.warns(
            Notice, match=r"train does not say how many samples it has, so it is read once to count them, \d+ so far; save"
        ) as seen,
        pytest.raises(DescriptionError, match="an iterable without a __len__ that gave 1,000 samples and did not end; say with"),
    ):
        make(endless)
    assert not is_instep_file(seen[0].filename)


def test_another_length_than_was_counted() -> None:
    passes = iter(range(99))

    def fewer_each_time() -> Iterator[tuple[Tensor, Tensor]]:
        yield from zip(X[next(passes) :], Y, strict=False)

    with pytest.raises(
        DataError, match="train gave 40 samples when they were counted and 39 in epoch 1; an epoch of data that chan"
    ):
        make(fewer_each_time).fit()
