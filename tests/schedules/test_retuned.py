"""A schedule at another learning rate: groups keep their ratios."""

from typing import Any

import pytest
import torch
from torch import nn
from torch.optim import SGD

from instep import OneCycle, Trainer
from instep.errors import DescriptionError
from instep.schedules import Linear, drive
from instep.schedules.retuned import retuned


def sgd(*lrs: float) -> SGD:
    return SGD([{"params": [nn.Parameter(torch.zeros(1))], "lr": lr} for lr in lrs])


def test_a_one_cycle_peaks_there_and_the_optimizer_is_left_alone() -> None:
    optimizer = sgd(0.1, 0.2)
    assert retuned(OneCycle(1.0, pct_start=0.4), optimizer, 0.5) == OneCycle(0.5, pct_start=0.4)
    assert [group["lr"] for group in optimizer.param_groups] == [0.1, 0.2]


@pytest.mark.parametrize("schedule", [None, Linear()])
def test_the_groups_start_from_it(schedule: Linear | None) -> None:
    optimizer = sgd(0.1, 0.4)
    drive(schedule, optimizer, total_steps=10).before_update(5)
    retuned(schedule, optimizer, 0.8)
    assert [group["lr"] for group in optimizer.param_groups] == [0.2, 0.8]
    drive(schedule, optimizer, total_steps=10).before_update(0)
    assert [group["lr"] for group in optimizer.param_groups] == [0.2, 0.8]
    nothing = sgd(0.0, 0.0)
    retuned(schedule, nothing, 0.8)
    assert [group["lr"] for group in nothing.param_groups] == [0.8, 0.8]


def test_a_tensor_stays_the_same_one() -> None:
    optimizer = SGD([nn.Parameter(torch.zeros(1))], lr=torch.tensor(0.1))
    held = optimizer.param_groups[0]["lr"]
    retuned(None, optimizer, 0.5)
    assert optimizer.param_groups[0]["lr"] is held
    assert float(held) == 0.5


def trainer(schedule: OneCycle | None = None) -> Trainer:
    torch.manual_seed(0)
    model = nn.Linear(2, 1)
    x = torch.randn(32, 2, generator=torch.Generator().manual_seed(0))
    return Trainer(
        model,
        loss=nn.functional.mse_loss,
        optimizer=SGD(model.parameters(), lr=0.1, momentum=0.9),
        schedule=schedule,
        train=(x, x.sum(1, keepdim=True)),
        max_steps=8,
        batch_size=8,
        progress=False,
    )


def test_a_trainer_at_another_learning_rate_is_the_one_described_with_it() -> None:
    set_later, described = trainer(OneCycle(0.3)), trainer(OneCycle(0.05))
    set_later.set_lr(0.05)
    assert set_later.run.describe() == described.run.describe()
    assert set_later.plan().rows == described.plan().rows
    assert set_later.plan().notes[0] == described.plan().notes[0]
    set_later.fit()
    described.fit()
    assert torch.equal(set_later.model.weight, described.model.weight)


def test_only_before_it_has_begun() -> None:
    run = trainer()
    next(run.updates())
    with pytest.raises(DescriptionError, match=r"the run has begun \(step 1\), so its learning rate cannot be set any more"):
        run.set_lr(0.1)


@pytest.mark.parametrize("schedule", [None, OneCycle(0.1)])
@pytest.mark.parametrize("lr", [-1.0, 0, float("nan"), float("inf"), "0.1", True])
def test_what_is_no_learning_rate_is_not_taken(schedule: OneCycle | None, lr: Any) -> None:
    optimizer = sgd(0.1)
    with pytest.raises(DescriptionError, match=r"^lr=.* is no learning rate to train with; use a number above 0\.$"):
        retuned(schedule, optimizer, lr)
    assert optimizer.param_groups[0]["lr"] == 0.1


def test_a_suggestion_that_is_none_points_to_its_reason() -> None:
    words = r"=None is no learning rate; a range test without a suggestion says why in its `reason`\.$"
    nothing: Any = None
    with pytest.raises(DescriptionError, match="^lr" + words):
        retuned(None, sgd(0.1), nothing)
    with pytest.raises(DescriptionError, match="^max_lr" + words):
        OneCycle(nothing)
