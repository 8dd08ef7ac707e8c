"""The features of an optimizer set up right, under promises 1, 2 and 5: split, interrupt, observe, each drawn with the others."""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from lion_pytorch import Lion
from schedulefree import AdamWScheduleFree, SGDScheduleFree
from torch import Tensor, nn

from instep import Loss, OneCycle, Trainer, keys
from instep.optim.freeze import freeze
from instep.optim.groups import param_groups
from tiny import CLASSES, FEATURES, TASKS

X, Y = TASKS[0].draw(30, seed=0, dtype=torch.float32)

OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.01),
    "lion": lambda p: Lion(p, lr=0.003),
    "free sgd": lambda p: SGDScheduleFree(p, lr=0.2),
    "free adamw": lambda p: AdamWScheduleFree(p, lr=0.01, warmup_steps=4),
}


def net(norm: bool, dropout: float, dtype: torch.dtype = torch.float32) -> nn.Module:
    keys.seed_all(keys.for_build(1))
    middle: nn.Module = nn.BatchNorm1d(8) if norm else nn.LayerNorm(8)
    base = nn.Sequential(nn.Linear(FEATURES, 8), middle, nn.Tanh(), nn.Dropout(dropout))
    return nn.Sequential(base, nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, CLASSES)).to(dtype)


@dataclass(frozen=True)
class Case:
    """A run with 4 updates an epoch."""

    optimizer: str = "sgd"
    schedule: bool = True
    l1: float = 0.0
    l2: float = 0.0
    clip: str | None = None
    ema: float | None = None
    swa: int | None = None
    precision: str = "fp32"
    unfreeze: str | None = None
    deterministic: bool = False
    update_cycle: int = 1
    norm: bool = True
    dropout: float = 0.3
    evaluate: bool = True
    dtype: torch.dtype = torch.float32

    def trainer(self, folder: Path | None = None) -> Trainer:
        model = net(self.norm, self.dropout, self.dtype)
        if self.unfreeze is not None:
            freeze(model, "0")
        groups = param_groups(model, {"0": {"lr": 0.02}}, no_decay=True, include_frozen=self.unfreeze != "joins")
        limits: dict[str, Any] = {
            "norm": {"clip_norm": 0.5},
            "value": {"clip_value": 0.01},
            "groups": {"clip_norm": {"rest": 0.2, "*": 0.5}},
        }
        x, y = X.to(self.dtype), Y
        return Trainer(
            model,
            loss=F.cross_entropy,
            optimizer=OPTIMIZERS[self.optimizer](groups),
            train=(x, y),
            valid=(x[:9], y[:9]) if self.evaluate else None,
            epochs=3,
            batch_size=8,
            update_cycle=self.update_cycle,
            schedule=OneCycle(max_lr=0.05) if self.schedule and "free" not in self.optimizer else None,
            l1=self.l1,
            l2=self.l2,
            ema=self.ema,
            swa=self.swa,
            precision=self.precision,  # type: ignore[arg-type]
            unfreeze_at={1: "0.0", 2: ["0.1", "0.3"]} if self.unfreeze is not None else None,
            deterministic=self.deterministic,
            checkpoint_every=3,
            keep=None,
            log_every=5,
            folder=folder,
            progress=False,
            **limits.get(self.clip or "", {}),
        )


def cases(**fixed: Any) -> st.SearchStrategy[Case]:
    drawn: dict[str, Any] = {
        "optimizer": st.sampled_from(sorted(OPTIMIZERS)),
        "schedule": st.booleans(),
        "l1": st.sampled_from([0.0, 0.01]),
        "l2": st.sampled_from([0.0, 0.02]),
        "clip": st.sampled_from([None, "norm", "value", "groups"]),
        "ema": st.sampled_from([None, 0.5, 0.9]),
        "swa": st.sampled_from([None, 0, 1]),
        "precision": st.sampled_from(["fp32", "bf16", "fp16"]),
        "unfreeze": st.sampled_from([None, "held", "joins"]),
        "deterministic": st.booleans(),
        "update_cycle": st.sampled_from([1, 3]),
        "norm": st.booleans(),
    }
    return st.builds(Case, **(drawn | fixed)).map(_possible)


def _possible(case: Case) -> Case:
    """Schedule-free optimizers average by themselves."""
    return replace(case, ema=None, swa=None) if "free" in case.optimizer else case


def result(trainer: Trainer, folder: Path) -> dict[str, Any]:
    """Everything that must be equal: weights, history but for the clock, and the files of the last checkpoint."""
    last = folder / "checkpoints" / (folder / "checkpoints" / "LATEST").read_text().strip()
    rows = [json.loads(line) for line in (folder / "history.jsonl").read_text().splitlines()]
    return {
        "weights": {name: value.numpy().tobytes() for name, value in trainer.model.state_dict().items()},
        "history": [{name: value for name, value in row.items() if name != "clock"} for row in rows],
        "checkpoint": {path.name: path.read_bytes() for path in sorted(last.iterdir())},
        "evaluation": dict(trainer.evaluate()),
    }


def assert_same(one: dict[str, Any], other: dict[str, Any]) -> None:
    for name in one:
        assert one[name] == other[name], name


def check_resume(make: Callable[[Path], Trainer], stops: list[int]) -> None:
    with TemporaryDirectory() as parent:
        whole, stopped = Path(parent) / "whole", Path(parent) / "stopped"
        trainer = make(whole)
        trainer.fit()
        expected = result(trainer, whole)
        for stop in sorted(set(stops)):
            for update in make(stopped).updates():
                if update.step == stop:
                    break
        again = make(stopped)
        again.fit()
        assert_same(expected, result(again, stopped))


@settings(max_examples=10, deadline=None)
@given(case=cases(), stops=st.lists(st.integers(0, 11), min_size=1, max_size=3))
def test_stopping_anywhere_changes_nothing(case: Case, stops: list[int]) -> None:
    check_resume(case.trainer, stops)


@settings(max_examples=20, deadline=None)
@given(
    case=cases(
        optimizer=st.sampled_from(["sgd", "free sgd"]),
        precision=st.just("fp32"),
        norm=st.just(False),
        l1=st.just(0.0),  # sign(p) of a weight that is rounding noise would be one or the other
        dropout=st.just(0.0),
        dtype=st.just(torch.float64),
        update_cycle=st.integers(2, 8),
    )
)
def test_any_split_gives_the_same_training(case: Case) -> None:
    whole, split = replace(case, update_cycle=1).trainer(), case.trainer()
    rows = zip(whole.fit().evaluations, split.fit().evaluations, strict=True)
    for (name, a), b in zip(whole.model.state_dict().items(), split.model.state_dict().values(), strict=True):
        assert (a - b).abs().max() < 1e-11, name
    for one, other in rows:
        assert all(abs(one[name] - other[name]) < 1e-10 for name in one if name.startswith("valid"))


@settings(max_examples=15, deadline=None)
@given(case=cases(), looks=st.sets(st.integers(0, 11), max_size=4), leave=st.sampled_from([None, 3, 6]))
def test_looking_changes_nothing(case: Case, looks: set[int], leave: int | None) -> None:
    alone, watched = replace(case, evaluate=False).trainer(), case.trainer()
    alone.fit()
    watched.dry_run()
    for update in watched.updates():
        if update.step in looks:
            watched.evaluate()
            watched.predict(X)
        if update.step == leave:
            break
    watched.evaluate()
    watched.fit()
    for (name, a), b in zip(alone.model.state_dict().items(), watched.model.state_dict().values(), strict=True):
        assert torch.equal(a, b), name
    if alone.ema is not None and watched.ema is not None:
        for (name, a), b in zip(alone.ema.state_dict().items(), watched.ema.state_dict().values(), strict=True):
            assert torch.equal(a, b), name


# --- Several players


class Making(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, FEATURES))

    def forward(self, n: int) -> Tensor:
        made: Tensor = self.body(torch.randn(n, 3))
        return made


def judging(models: Any, batch: tuple[Tensor, Tensor]) -> Loss:
    real, fake = models["d"](batch[0]), models["g"](len(batch[0]))
    value = F.softplus(-real).mean() + F.softplus(models["d"](fake)).mean()
    return Loss(value, len(batch[0]))


def fooling(models: Any, batch: tuple[Tensor, Tensor]) -> Tensor:
    return F.softplus(-models["d"](models["g"](len(batch[0])))).mean()


@dataclass(frozen=True)
class Game:
    every: int = 1
    update_cycle: int = 1
    clip: bool = False
    schedule: str = "both"
    precision: str = "fp32"
    ema: float | None = None

    def trainer(self, folder: Path | None = None) -> Trainer:
        keys.seed_all(keys.for_build(2))
        models = {"g": Making(), "d": nn.Sequential(nn.Linear(FEATURES, 8), nn.Tanh(), nn.Dropout(0.2), nn.Linear(8, 1))}
        schedules: dict[str, Any] = {"both": OneCycle(max_lr=0.02), "one": {"g": OneCycle(max_lr=0.02)}, "none": None}
        return Trainer(
            models,
            optimizer={"d": lambda p: torch.optim.AdamW(p, lr=0.01), "g": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9)},
            objective={"d": judging, "g": fooling},
            update_every={"g": self.every},
            train=(X, Y),
            valid=(X[:9], Y[:9]),
            epochs=3,
            batch_size=8,
            update_cycle=self.update_cycle,
            schedule=schedules[self.schedule],
            clip_norm={"d": 0.5} if self.clip else None,
            precision=self.precision,  # type: ignore[arg-type]
            ema=self.ema,
            folder=folder,
            keep=None,
            log_every=3,
            checkpoint_every=3,
            progress=False,
        )


@settings(max_examples=15, deadline=None)
@given(
    game=st.builds(
        Game,
        every=st.sampled_from([1, 2, 5]),
        update_cycle=st.sampled_from([1, 3]),
        clip=st.booleans(),
        schedule=st.sampled_from(["both", "one", "none"]),
        precision=st.sampled_from(["fp32", "bf16", "fp16"]),
        ema=st.sampled_from([None, 0.8]),
    ),
    stops=st.lists(st.integers(0, 11), min_size=1, max_size=3),
)
def test_a_game_goes_on_where_it_stopped(game: Game, stops: list[int]) -> None:
    check_resume(game.trainer, stops)


# --- Others


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_lbfgs_goes_on_where_it_stopped(precision: Any) -> None:
    def trainer(folder: Path) -> Trainer:
        model = net(norm=True, dropout=0.3)
        return Trainer(
            model,
            loss=F.cross_entropy,
            optimizer=torch.optim.LBFGS(model.parameters(), lr=0.3, max_iter=3),
            train=(X, Y),
            valid=(X[:9], Y[:9]),
            epochs=3,
            batch_size=8,
            update_cycle=2,
            l2=0.01,
            ema=0.9,
            precision=precision,
            folder=folder,
            keep=None,
            progress=False,
        )

    check_resume(trainer, [1, 6])


def test_channels_last_goes_on_where_it_stopped() -> None:
    def trainer(folder: Path) -> Trainer:
        keys.seed_all(keys.for_build(1))
        model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, CLASSES))
        model = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        images = torch.randn(30, 3, 6, 6, generator=torch.Generator().manual_seed(0))
        return Trainer(
            model,
            loss=F.cross_entropy,
            optimizer=torch.optim.AdamW(model.parameters(), lr=0.01),
            train=(images, Y),
            valid=(images[:9], Y[:9]),
            epochs=3,
            batch_size=8,
            update_cycle=3,
            precision="bf16",
            folder=folder,
            keep=None,
            progress=False,
        )

    check_resume(trainer, [1, 6])
