"""Plateau: torch's ReduceLROnPlateau as a schedule of our own, with a state that goes into the checkpoint."""

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.optim import SGD
from torch.optim.lr_scheduler import ReduceLROnPlateau

from instep import Trainer
from instep.errors import DescriptionError
from instep.schedules import Plateau, drive
from tiny import TASKS


def sgd(*lrs: float) -> SGD:
    return SGD([{"params": [nn.Parameter(torch.zeros(1))], "lr": lr} for lr in lrs or (0.1, 0.01)])


def lrs(optimizer: SGD) -> list[float]:
    return [group["lr"] for group in optimizer.param_groups]


@settings(max_examples=60, deadline=None)
@given(
    values=st.lists(st.one_of(st.floats(0, 2), st.sampled_from([0.5, 0.5, math.nan, math.inf])), max_size=30),
    factor=st.sampled_from([0.1, 0.5]),
    patience=st.integers(0, 3),
    min_delta=st.sampled_from([0.0, 1e-4, 0.1]),
    relative=st.booleans(),
    cooldown=st.integers(0, 3),
    min_lr=st.sampled_from([0.0, 0.005]),
    mode=st.sampled_from(["min", "max"]),
    cut=st.integers(0, 29),
)
def test_equals_torch_after_every_evaluation_also_gone_on_with(values: list[float], mode: Any, cut: int, **options: Any) -> None:
    theirs, ours = sgd(), sgd()
    torchs = {"threshold": options["min_delta"], "threshold_mode": "rel" if options["relative"] else "abs", "eps": 0.0}
    shared = {name: options[name] for name in ("factor", "patience", "cooldown", "min_lr")}
    scheduler = ReduceLROnPlateau(theirs, mode=mode, **shared, **torchs)
    plateau = Plateau(**options, mode=mode)
    driver = drive(plateau, ours, total_steps=100)
    for index, value in enumerate(values):
        if index == cut:
            again = sgd()
            again.load_state_dict(ours.state_dict())
            other = drive(plateau, again, total_steps=100)
            other.load_state_dict(driver.state_dict())
            ours, driver = again, other
        scheduler.step(value)
        driver.after_evaluation(value)
        assert lrs(ours) == lrs(theirs)


def test_by_hand() -> None:
    optimizer = sgd(0.8, 0.2)
    driver = drive(Plateau(factor=0.5, patience=1, min_delta=0.1, relative=False, min_lr=0.15), optimizer, total_steps=9)
    seen = []
    for value in (1.0, 0.95, 0.92, 0.85, 0.85, 0.85):  # 0.95 and 0.92 are not better by more than 0.1, 0.85 is
        driver.after_evaluation(value)
        seen.append(tuple(lrs(optimizer)))
    assert seen == [(0.8, 0.2), (0.8, 0.2), (0.4, 0.15), (0.4, 0.15), (0.4, 0.15), (0.2, 0.15)]


def test_a_share_of_a_best_below_zero_goes_the_right_way() -> None:
    assert not Plateau(min_delta=0.1).improves(-1.05, -1.0, "min")
    assert Plateau(min_delta=0.1).improves(-1.2, -1.0, "min")
    assert not Plateau(min_delta=0.1).improves(-0.95, -1.0, "max")


def test_a_group_below_min_lr_and_one_in_a_tensor_and_one_that_joins() -> None:
    optimizer = sgd(0.001)
    optimizer.add_param_group({"params": [nn.Parameter(torch.zeros(1))], "lr": torch.tensor(0.5)})
    held = optimizer.param_groups[1]["lr"]
    driver = drive(Plateau(patience=0, factor=0.5, min_lr=0.01), optimizer, total_steps=9)
    driver.after_evaluation(1.0)
    optimizer.add_param_group({"params": [nn.Parameter(torch.zeros(1))], "lr": 0.1})
    driver.after_evaluation(1.0)
    assert [float(lr) for lr in lrs(optimizer)] == [0.001, 0.25, 0.05]
    assert optimizer.param_groups[1]["lr"] is held


def trainer(**options: Any) -> Trainer:
    model = TASKS[0].build(0, torch.float32)
    x, y = TASKS[0].draw(16, seed=0, dtype=torch.float32)
    return Trainer(
        model,
        loss=nn.functional.cross_entropy,
        optimizer=SGD(model.parameters(), lr=1e-9),
        train=(x, y),
        valid=(x, y),
        metrics="accuracy",
        epochs=4,
        batch_size=8,
        progress=False,
        **options,
    )


@pytest.mark.parametrize("monitor", ["valid/loss", "valid/accuracy"])
def test_a_run_takes_for_better_what_its_monitor_does(monitor: str) -> None:
    run = trainer(schedule=Plateau(patience=0, factor=0.5), monitor=monitor)
    run.fit()
    assert run.history.column("lr")[-1] == pytest.approx(0.25e-9)  # nothing changes: lowered after the second evaluation and on
    assert "Plateau" in str(run)


def test_the_other_way_round_is_an_error() -> None:
    with pytest.raises(DescriptionError, match=r'takes valid/accuracy for a number to minimise.*give it mode="max"'):
        trainer(schedule=Plateau(mode="min"), monitor="valid/accuracy")
    with pytest.raises(DescriptionError, match="this schedule goes by the monitored value, so it needs evaluations"):
        trainer(schedule=Plateau(), evaluate_every=None)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"factor": 1.0}, "factor=1.0 does not lower a learning rate; use a number between 0 and 1"),
        ({"patience": -1}, "patience=-1 is no number of evaluations; use a whole number from 0 on"),
        ({"cooldown": 1.5}, "cooldown=1.5 is no number of evaluations"),
        ({"min_lr": -1.0}, "min_lr=-1.0 makes no sense; use 0 or a number above it"),
        ({"mode": "less"}, 'mode=\'less\' is not known; use "min", "max", or "auto" for what the monitor says'),
    ],
)
def test_what_makes_no_sense(options: dict[str, Any], words: str) -> None:
    with pytest.raises(DescriptionError, match=words):
        Plateau(**options)


def test_there_must_be_a_state_of_one_to_go_on_from() -> None:
    with pytest.raises(DescriptionError, match="schedule= is a Plateau, and there is no state of one to go on from"):
        drive(Plateau(), sgd(), total_steps=9).load_state_dict({})
    with pytest.raises(DescriptionError, match=r"schedule= is the class Plateau; call it: schedule=Plateau\(…\)"):
        drive(Plateau, sgd(), total_steps=9)  # type: ignore[arg-type]
