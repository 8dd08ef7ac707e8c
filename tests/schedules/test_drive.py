"""drive: what may be passed, what is written into the groups, and what survives."""

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.optim import SGD, Adam, Optimizer
from torch.optim.lr_scheduler import CosineAnnealingLR, StepLR

from instep.errors import DescriptionError
from instep.schedules import Constant, Linear, OneCycle, Schedule, Step, WarmupCosine, drive
from instep.schedules.schedule import Curve


def sgd(*lrs: float) -> Optimizer:
    return SGD([{"params": [nn.Parameter(torch.zeros(1))], "lr": lr} for lr in lrs], lr=0.5)


def lrs(optimizer: Optimizer) -> list[float]:
    return [group["lr"] for group in optimizer.param_groups]


# --- What is written


@pytest.mark.parametrize("schedule", [None, Constant()])
def test_nothing_is_touched_without_a_schedule(schedule: Constant | None) -> None:
    optimizer = sgd(0.1, 0.2)
    before = copy.deepcopy(optimizer.state_dict())
    driver = drive(schedule, optimizer, total_steps=10)
    driver.before_update(3)
    driver.after_update()
    driver.after_epoch()
    driver.after_evaluation(1.0)
    assert optimizer.state_dict() == before
    assert (driver.state_dict(), driver.notes, driver.needs_monitor, driver.monitor_mode) == ({}, (), False, None)


def test_only_the_position_counts() -> None:
    """Any order, any number of times, with or without the calls in between: the same values, and no state."""
    optimizer = sgd(0.1)
    driver = drive(Linear(), optimizer, total_steps=10)
    for position in (7, 0, 9, 9, 3):
        driver.before_update(position)
        assert lrs(optimizer) == pytest.approx([0.1 * (1 - position / 10)])
        if position % 2:
            driver.after_update()
            driver.after_epoch()
            driver.after_evaluation(1.0)
    assert driver.state_dict() == {}
    driver.load_state_dict({})
    assert not driver.needs_monitor


def test_a_learning_rate_in_a_tensor_stays_in_it() -> None:
    rate = torch.tensor(0.5)
    optimizer = Adam([nn.Parameter(torch.zeros(1))], lr=rate, foreach=False)
    held = optimizer.param_groups[0]["lr"]
    driver = drive(Linear(), optimizer, total_steps=4)
    driver.before_update(1)
    assert optimizer.param_groups[0]["lr"] is held
    assert held.item() == 0.375
    driver.before_update(2)
    assert held.item() == 0.25


def test_an_optimizer_that_was_loaded_is_written_to() -> None:
    """load_state_dict puts new groups in place of the old ones; on resume it brings the rates of the middle of a run."""
    optimizer = sgd(0.1, 0.2)
    driver = drive(Step(every=1, factor=0.5), optimizer, total_steps=10)
    driver.before_update(2)
    saved = copy.deepcopy(optimizer.state_dict())
    for loaded_first in (False, True):
        new = sgd(0.1, 0.2)
        if loaded_first:
            new.load_state_dict(saved)
        driver = drive(Step(every=1, factor=0.5), new, total_steps=10)
        new.load_state_dict(saved)
        assert lrs(new) == [0.025, 0.05]
        driver.before_update(3)
        assert lrs(new) == [0.0125, 0.025]


def test_a_group_that_joined_later_finds_its_start_again() -> None:
    def joined() -> tuple[Optimizer, dict[str, Any]]:
        optimizer = sgd(0.1)
        return optimizer, {"params": [nn.Parameter(torch.zeros(1))], "lr": 0.02}

    optimizer, late = joined()
    driver = drive(Linear(), optimizer, total_steps=10)
    driver.before_update(4)
    optimizer.add_param_group(late)
    driver.before_update(5)
    assert lrs(optimizer) == [0.05, 0.01]
    saved = copy.deepcopy(optimizer.state_dict())

    optimizer, late = joined()
    driver = drive(Linear(), optimizer, total_steps=10)
    optimizer.add_param_group(late)
    optimizer.load_state_dict(saved)
    driver.before_update(8)
    assert lrs(optimizer) == pytest.approx([0.02, 0.004])


def test_an_optimizer_that_was_under_a_schedule_starts_again_and_says_so() -> None:
    optimizer = sgd(0.1, 0.2)
    drive(Linear(), optimizer, total_steps=10).before_update(9)
    optimizer.param_groups[1]["lr"] = 0.2
    driver = drive(Linear(), optimizer, total_steps=10)
    assert driver.notes == (
        "group 0 of the optimizer was under a schedule before and starts from its initial_lr=0.1 again, not from lr=0.01; "
        "delete initial_lr from the group to start from that.",
    )
    driver.before_update(0)
    assert lrs(optimizer) == [0.1, 0.2]


def test_a_group_that_went_away() -> None:
    optimizer = sgd(0.1, 0.2)
    driver = drive(Linear(), optimizer, total_steps=10)
    del optimizer.param_groups[0]
    with pytest.raises(
        DescriptionError, match="had 2 parameter groups and has 1 now, and it is not clear which is gone; freeze a"
    ):
        driver.before_update(1)


# --- Functions and schedules of one's own


def test_a_plain_function_gives_the_first_groups_rate() -> None:
    optimizer = sgd(0.1, 0.05, 0.2)
    driver = drive(lambda position: 1 / (1 + position), optimizer, total_steps=10)
    assert driver.notes == ()
    for position in range(12):
        driver.before_update(position)
        first = 1 / (1 + position)
        assert lrs(optimizer) == [first, first * 0.5, first * 2]
    optimizer.add_param_group({"params": [nn.Parameter(torch.zeros(1))], "lr": 0.3})
    driver.before_update(0)
    assert lrs(optimizer)[3] == pytest.approx(3.0)


def test_a_function_may_return_any_number() -> None:
    optimizer = sgd(0.0)
    for f in (lambda position: np.float32(0.5), lambda position: torch.tensor(0.5), lambda position, half=0.5: half):
        drive(f, optimizer, total_steps=10).before_update(0)  # type: ignore[arg-type]
        assert lrs(optimizer) == [0.5]
        assert type(lrs(optimizer)[0]) is float


class Halved(Schedule):
    def curve(self, total: int, base: float) -> Curve:
        return lambda position: base if position < total // 2 else base / 2


def test_a_schedule_of_ones_own() -> None:
    optimizer = sgd(0.1, 0.2)
    driver = drive(Halved(), optimizer, total_steps=10)
    driver.before_update(4)
    assert lrs(optimizer) == [0.1, 0.2]
    driver.before_update(5)
    assert lrs(optimizer) == [0.05, 0.1]


@pytest.mark.parametrize(
    ("f", "words"),
    [
        (lambda position: float("nan"), "schedule= gave nan for position 0 of 10; a learning rate is 0 or a number above it"),
        (lambda position: 0.5 - position / 10, "schedule= gave -0.4 for position 9 of 10"),
        (
            lambda optimizer: CosineAnnealingLR(optimizer, 10),
            "function with one parameter, so it was asked for the learning rate at position 0, and it raised TypeError: int is "
            "not an Optimizer. To build one of torch's schedulers it needs two parameters: lambda optimizer, total_steps",
        ),
    ],
)
def test_a_function_that_gives_no_learning_rate(f: Callable[[int], float], words: str) -> None:
    with pytest.raises(DescriptionError, match=words):
        drive(f, sgd(0.1), total_steps=10)


def test_a_function_and_no_ratios() -> None:
    with pytest.raises(
        DescriptionError, match=r"learning rates \[0.0, 0.1\] have no ratios to the first, 0, and .*; give the first gr"
    ):
        drive(lambda position: 0.1, sgd(0.0, 0.1), total_steps=10)


# --- What is refused


@pytest.mark.parametrize(
    ("schedule", "words"),
    [
        (
            0.1,
            r"schedule= is 0.1, which is no schedule; use a function of position \(schedule=OneCycle\(max_lr=0.1\), .* or one",
        ),
        ("cosine", "schedule= is 'cosine', which is no schedule"),
        ({"lr": 0.1}, "schedule= is a dict, which is no schedule"),
        (dict, "schedule= is the class dict, which is no schedule"),
        (OneCycle, r"schedule= is the class OneCycle; call it: schedule=OneCycle\("),
        (
            StepLR,
            r"schedule= is the class StepLR; pass a function .*: schedule=lambda optimizer, total_steps: StepLR\(optimizer, …\)",
        ),
        (StepLR(sgd(0.1), 5), r"is a StepLR that is built already; pass the function .* total_steps: StepLR\(optimizer, …\)"),
        (
            lambda: 0.1,
            r"schedule= is a function with 0 parameters; take one, \(position\), .* or two, \(optimizer, total_steps\)",
        ),
        (lambda a, b, c: 0.1, "schedule= is a function with 3 parameters"),
        (lambda *rest: 0.1, "schedule= is a function with 0 parameters"),
    ],
)
def test_what_is_no_schedule(schedule: Any, words: str) -> None:
    with pytest.raises(DescriptionError, match=words):
        drive(schedule, sgd(0.1), total_steps=10)


def test_a_run_without_updates_or_optimizer() -> None:
    for total in (0, -3, 1.5, True, None):
        with pytest.raises(
            DescriptionError, match=f"total_steps={total} is not a number of updates; use a whole number from 1 on"
        ):
            drive(OneCycle(0.1), sgd(0.1), total_steps=total)  # type: ignore[arg-type]
    with pytest.raises(DescriptionError, match=r"optimizer is a Linear; pass a torch.optim.Optimizer"):
        drive(OneCycle(0.1), nn.Linear(1, 1), total_steps=10)  # type: ignore[arg-type]


@pytest.mark.parametrize("schedule", [None, OneCycle(0.1)])
def test_the_state_of_another_schedule(schedule: OneCycle | None) -> None:
    driver = drive(schedule, sgd(0.1), total_steps=10)
    with pytest.raises(
        DescriptionError, match="the state of one of torch's schedulers to go on from, and schedule= is none of those"
    ):
        driver.load_state_dict({"last_epoch": 3})


def test_nothing_is_written_where_planning_fails() -> None:
    optimizer = sgd(0.1)
    before = copy.deepcopy(optimizer.state_dict())
    with pytest.raises(DescriptionError, match="leaves nothing of the run"):
        drive(WarmupCosine(10), optimizer, total_steps=10)
    assert optimizer.state_dict() == before
