"""Promise 2, interrupt: a run stopped or killed at any step and resumed equals the run that never stopped, bit for bit."""

import json
import os
import random
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.utils.data import Dataset

from instep import OneCycle, Trainer, keys
from instep.schedules import Plateau, WarmupCosine, per_epoch
from killed import in_a_child, kill_at_random
from tiny import CLASSES, FEATURES, TASKS
from torch_schedulers import BUILD


class Augmented(Dataset[tuple[Tensor, Tensor]]):
    """Samples with an augmentation from each of the three generators."""

    def __init__(self, n: int) -> None:
        self.x, self.y = TASKS[0].draw(n, seed=0, dtype=torch.float32)

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        noise = 0.1 * torch.randn(FEATURES) + random.random() * 0.1 + np.random.rand() * 0.1
        return self.x[index] + noise.float(), self.y[index]


class Net(nn.Module):
    """Dropout, BatchNorm, a tied weight, and a buffer that a state_dict leaves out."""

    calls: Tensor

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(FEATURES, width), nn.BatchNorm1d(width), nn.Dropout(0.3))
        self.head = nn.Linear(width, CLASSES)
        self.twin = nn.Linear(width, CLASSES)
        self.twin.weight = self.head.weight
        self.register_buffer("calls", torch.zeros(()), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            self.calls += 1
        hidden = self.body(x)
        scores: Tensor = self.head(hidden) + self.twin(hidden) * self.calls / 100
        return scores


SCHEDULES: dict[str, Any] = {
    "one_cycle": OneCycle(max_lr=0.05),
    "cosine": WarmupCosine(warmup=3),
    "torch": lambda optimizer, total: torch.optim.lr_scheduler.MultiStepLR(optimizer, [3, 7], gamma=0.5),
    "per_epoch": per_epoch(lambda optimizer: torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)),
    "plateau": lambda optimizer, total: torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0, factor=0.5),
    "own plateau": Plateau(patience=0, factor=0.5),
    "none": None,
}
OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.01, amsgrad=True),
    "adagrad": lambda p: torch.optim.Adagrad(p, lr=0.05),
}


@dataclass(frozen=True)
class Case:
    """A run with 4 updates an epoch."""

    schedule: str = "one_cycle"
    optimizer: str = "adamw"
    samples: bool = True
    update_cycle: int = 1
    evaluate_every: int | str | None = "epoch"
    log_every: int = 5
    checkpoint_every: int | str | None = "epoch"
    clip_norm: float | None = 1.0
    patience: int | None = None
    epochs: int = 3

    def trainer(self, folder: Path, width: int = 8) -> Trainer:
        keys.seed_all(keys.for_build(1))
        model = Net(width)
        data = Augmented(30)
        return Trainer(
            model,
            loss=nn.functional.cross_entropy,
            optimizer=OPTIMIZERS[self.optimizer](model.parameters()),
            schedule=SCHEDULES[self.schedule],
            train=data if self.samples else (data.x, data.y),
            valid=(data.x[:9], data.y[:9]),
            evaluate_every=self.evaluate_every,
            metrics="accuracy",
            epochs=self.epochs,
            batch_size=8,
            update_cycle=self.update_cycle,
            clip_norm=self.clip_norm,
            log_every=self.log_every,
            checkpoint_every=self.checkpoint_every,
            patience=self.patience,
            keep=None,
            folder=folder,
            progress=False,
        )


def result(trainer: Trainer, folder: Path) -> dict[str, Any]:
    """Everything that must be equal: weights, history but for the clock, and the files of the last checkpoint."""
    rows = [json.loads(line) for line in (folder / "history.jsonl").read_text().splitlines()]
    last = folder / "checkpoints" / (folder / "checkpoints" / "LATEST").read_text().strip()
    return {
        "weights": {name: value.numpy().tobytes() for name, value in trainer.model.state_dict().items()},
        "history": [{name: value for name, value in row.items() if name != "clock"} for row in rows],
        "rows": trainer.history.to_dicts(clock=False),
        "checkpoint": {path.name: path.read_bytes() for path in sorted(last.iterdir())},
    }


def assert_same(one: dict[str, Any], other: dict[str, Any]) -> None:
    for name in one:
        assert one[name] == other[name], name


CASES = st.builds(
    Case,
    schedule=st.sampled_from(sorted(set(SCHEDULES) - {"plateau", "own plateau"})),
    optimizer=st.sampled_from(sorted(OPTIMIZERS)),
    samples=st.booleans(),
    update_cycle=st.sampled_from([1, 3]),
    evaluate_every=st.sampled_from(["epoch", 3, None]),
    log_every=st.sampled_from([1, 5, 50]),
    checkpoint_every=st.sampled_from(["epoch", 1, 5, None, "0.0001 minutes"]),
    clip_norm=st.sampled_from([None, 1.0]),
)
STOPS = st.lists(st.integers(0, 11), max_size=3)


def check_stops(case: Case, stops: list[int]) -> None:
    with TemporaryDirectory() as parent:
        whole, stopped = Path(parent) / "whole", Path(parent) / "stopped"
        trainer = case.trainer(whole)
        trainer.fit()
        expected = result(trainer, whole)
        for stop in sorted(set(stops)):
            for update in case.trainer(stopped).updates():
                if update.step == stop:
                    break
        again = case.trainer(stopped)
        again.fit()
        assert_same(expected, result(again, stopped))


@settings(max_examples=12, deadline=None)
@given(case=CASES, stops=STOPS)
def test_stopping_anywhere_changes_nothing(case: Case, stops: list[int]) -> None:
    check_stops(case, stops)


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(case=CASES, stops=STOPS)
def test_stopping_two_hundred_runs_changes_nothing(case: Case, stops: list[int]) -> None:
    check_stops(case, stops)


@pytest.mark.parametrize("schedule", ["plateau", "own plateau"])
@pytest.mark.parametrize("patience", [None, 1])
def test_a_plateau_and_patience_go_on_too(tmp_path: Path, patience: int | None, schedule: str) -> None:
    case = Case(schedule=schedule, optimizer="sgd", patience=patience, evaluate_every=2)
    whole = case.trainer(tmp_path / "whole")
    whole.fit()
    for stop in (1, 4, 5):
        for update in case.trainer(tmp_path / "stopped").updates():
            if update.step == stop:
                break
    again = case.trainer(tmp_path / "stopped")
    again.fit()
    assert_same(result(whole, tmp_path / "whole"), result(again, tmp_path / "stopped"))


@pytest.mark.parametrize("name", ["SequentialLR", "OneCycleLR"])  # all of them: tests/schedules/test_scheduler.py
def test_a_scheduler_of_torch_goes_on_where_it_was(name: str, tmp_path: Path) -> None:
    """The learning rates of a run that was stopped twice are those of torch's own loop."""
    x, y = TASKS[0].draw(24, seed=0, dtype=torch.float32)

    def trainer(folder: Path) -> Trainer:
        model = TASKS[0].build(0, torch.float32)
        first, *rest = model.parameters()
        optimizer = torch.optim.SGD([{"params": [first], "lr": 0.1}, {"params": rest, "lr": 0.03}], momentum=0.9)
        return Trainer(
            model,
            loss=nn.functional.cross_entropy,
            optimizer=optimizer,
            schedule=BUILD[name],
            train=(x, y),
            epochs=3,
            batch_size=6,
            folder=folder,
            progress=False,
        )

    groups = [{"params": [nn.Parameter(torch.zeros(1))], "lr": lr} for lr in (0.1, 0.03)]
    plain = torch.optim.SGD(groups, momentum=0.9)
    scheduler, expected = BUILD[name](plain, 12), []
    for _ in range(12):
        expected.append(tuple(group["lr"] for group in plain.param_groups))
        plain.step()
        scheduler.step()
    seen = []
    for stop in (2, 8, 11):
        for update in trainer(tmp_path / "run").updates():
            seen.append(update.lrs)
            if update.step == stop:
                break
    assert seen == expected


def test_skipped_updates_are_remembered(tmp_path: Path) -> None:
    """A schedule goes by the updates that stepped, so how many did not must survive."""

    def trainer(folder: Path) -> Trainer:
        keys.seed_all(1)
        model = Net()
        x, y = TASKS[0].draw(30, seed=0, dtype=torch.float32)
        x[3] = float("nan")
        model.body[1] = nn.Identity()  # BatchNorm's statistics would keep the nan
        return Trainer(
            model,
            loss=nn.functional.cross_entropy,
            optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
            schedule=OneCycle(max_lr=0.2),
            train=(x, y),
            epochs=3,
            batch_size=8,
            on_nonfinite="skip",
            folder=folder,
            progress=False,
        )

    whole = trainer(tmp_path / "whole")
    lrs = [update.lr for update in whole.updates()]
    first = []
    for update in trainer(tmp_path / "stopped").updates():
        first.append(update.lr)
        if update.step == 6:
            break
    again = trainer(tmp_path / "stopped")
    assert first + [update.lr for update in again.updates()] == lrs
    assert_same(result(whole, tmp_path / "whole"), result(again, tmp_path / "stopped"))


# --- Killed for real

WIDTH = 50_000  # a checkpoint of 9 MB with the optimizer's state: many a kill falls into the middle of writing one


def check_kills(tmp_path: Path, kills: int, seed: int, epochs: int) -> None:
    case = Case(checkpoint_every=1, log_every=3, epochs=epochs)

    def train(folder: Path) -> None:
        case.trainer(folder, WIDTH).fit()

    whole, killed = tmp_path / "whole", tmp_path / "killed"
    begun = time.monotonic()
    os.waitpid(in_a_child(train, whole), 0)
    kill_at_random(train, killed, kills=kills, seed=seed, whole_s=time.monotonic() - begun)
    trainers = [case.trainer(folder, WIDTH) for folder in (whole, killed)]
    for trainer in trainers:
        trainer.fit()  # finished: only read
    assert_same(result(trainers[0], whole), result(trainers[1], killed))
    shutil.rmtree(tmp_path)


def test_kill_minus_nine_at_random_moments(tmp_path: Path) -> None:
    check_kills(tmp_path, kills=6, seed=1, epochs=6)


@pytest.mark.slow
def test_kill_minus_nine_thirty_times(tmp_path: Path) -> None:
    check_kills(tmp_path, kills=30, seed=2, epochs=15)
