"""One sweep: what is written into the groups, which loss belongs to which learning rate, and when it ends."""

import math
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim import SGD, Adam

from instep.errors import DescriptionError, NonFiniteLoss
from instep.records import StepResult
from instep.tuning.sweep import BEFORE, GroupWriter, Growth, sweep
from tuning.toyrun import bowl_run


def test_learning_rates_grow_by_equal_factors_or_by_equal_amounts() -> None:
    lrs = Growth(low=1e-4, high=1.0, steps=41).lrs()
    assert (lrs[0], lrs[10], lrs[20], lrs[40]) == pytest.approx((1e-4, 1e-3, 1e-2, 1.0))
    lrs = Growth(low=0.5, high=2.5, steps=21, mode="linear").lrs()
    assert (lrs[0], lrs[1], lrs[20]) == pytest.approx((0.5, 0.6, 2.5))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"low": 0.0}, r"low=0.0 to high=10.0 is no range to grow in; use for example low=1e-7, high=10"),
        ({"low": 1.0, "high": 0.1}, "low=1.0 to high=0.1 is no range"),
        ({"high": math.inf}, "high=inf is no range"),
        ({"steps": 5}, "steps=5 updates show no curve; use 20 or more, such as 100"),
        ({"steps": 1.5}, "steps=1.5 must be a whole number"),
        ({"mode": "log"}, r'mode=\'log\' is not known; use "exponential" or "linear"'),
        ({"smoothing": 1.0}, "smoothing=1.0 is no weight of a neighbour; use a number from 0 to below 1"),
        ({"stop_factor": 1.0}, "stop_factor=1.0 would stop before the loss has risen; use a number above 1"),
    ],
)
def test_what_does_not_fit_is_said_at_once(options: dict[str, Any], words: str) -> None:
    with pytest.raises(DescriptionError, match=words):
        Growth(**options)


def grouped(**options: Any) -> SGD:
    a, b = nn.Parameter(torch.ones(1)), nn.Parameter(torch.ones(1))
    return SGD([{"params": [a], "lr": 0.01}, {"params": [b], "lr": 0.04}], lr=1.0, **options)


def test_groups_keep_their_ratios_and_the_largest_gets_the_rate_itself() -> None:
    optimizer = grouped()
    GroupWriter(optimizer).lr(1.0)
    assert [group["lr"] for group in optimizer.param_groups] == [0.25, 1.0]


def test_ratios_are_those_the_groups_were_made_with() -> None:
    """A schedule has written others since, and keeps the first under initial_lr."""
    optimizer = grouped()
    for group, start in zip(optimizer.param_groups, (0.1, 0.2), strict=True):
        group["initial_lr"] = start
    GroupWriter(optimizer).lr(1.0)
    assert [group["lr"] for group in optimizer.param_groups] == [0.5, 1.0]


def test_a_learning_rate_that_is_a_tensor_stays_that_tensor() -> None:
    lr = torch.tensor(0.1)
    optimizer = Adam([nn.Parameter(torch.ones(1))], lr=lr)
    GroupWriter(optimizer).lr(0.5)
    assert optimizer.param_groups[0]["lr"] is lr
    assert lr.item() == 0.5


def test_momentum_goes_where_the_optimizer_has_it() -> None:
    sgd, adam = grouped(momentum=0.9), Adam([nn.Parameter(torch.ones(1))])
    for optimizer in (sgd, adam):
        GroupWriter(optimizer).momentum(0.85)
    assert [group["momentum"] for group in sgd.param_groups] == [0.85, 0.85]
    assert adam.param_groups[0]["betas"] == (0.85, 0.999)


def test_learning_rates_of_zero_have_no_ratios_and_get_the_same() -> None:
    optimizer = SGD([nn.Parameter(torch.ones(1))], lr=0.0)
    GroupWriter(optimizer).lr(0.3)
    assert optimizer.param_groups[0]["lr"] == 0.3


def test_an_optimizer_without_a_learning_rate_is_refused() -> None:
    optimizer = SGD([nn.Parameter(torch.ones(1))], lr=0.1)
    del optimizer.param_groups[0]["lr"]
    with pytest.raises(DescriptionError, match="SGD has groups without an lr, so there is none to be found for it"):
        GroupWriter(optimizer)


def test_a_loss_belongs_to_the_learning_rate_of_the_update_before_it() -> None:
    """½w² from w = 1, on the same batch each time: after a step at lr it is ½(1 - lr)²·w². Known in advance, all of it."""
    run = bowl_run(1.0, noise=0.0)
    growth = Growth(low=0.01, high=1.0, steps=20)
    found = sweep(run.rehearse(0), run.optimizer, growth)
    w, expected = 1.0, []
    for lr in growth.lrs():
        w *= 1 - lr
        expected.append(0.5 * w * w)
    assert found.before == pytest.approx((0.5,) * (BEFORE + 1), rel=1e-6)
    assert found.lrs == growth.lrs()
    assert found.losses == pytest.approx(expected, rel=1e-6)


def test_it_stops_where_the_loss_has_diverged() -> None:
    run = bowl_run(1.0)
    found = sweep(run.rehearse(0), run.optimizer, Growth(high=1e6, steps=200))
    assert 2.0 < found.lrs[-1] < 100.0
    assert found.losses[-1] > found.ceiling


def test_it_stops_where_a_loss_is_not_finite() -> None:
    for on_nonfinite in ("stop", "skip"):
        losses = [2.0] * 15 + [math.nan, 1.0, 1.0]
        optimizer = SGD([nn.Parameter(torch.ones(1))], lr=0.1)
        found = sweep(as_sentence(losses, raises=on_nonfinite == "stop"), optimizer, Growth(steps=50))
        assert found.losses == (*[2.0] * (15 - BEFORE - 1), math.inf)
        assert len(found.lrs) == len(found.losses)


def test_a_loss_that_is_not_finite_from_the_beginning_is_the_runs_own_trouble() -> None:
    optimizer = SGD([nn.Parameter(torch.ones(1))], lr=0.1)
    with pytest.raises(NonFiniteLoss, match="the loss is nan before the learning rate has grown at all; see to that first"):
        sweep(as_sentence([math.nan]), optimizer, Growth())
    with pytest.raises(NonFiniteLoss, match="boom"):
        sweep(as_sentence([math.nan], raises=True), optimizer, Growth())


def as_sentence(losses: list[float], *, raises: bool = False) -> Iterator[StepResult]:
    for loss in losses:
        if raises and math.isnan(loss):
            raise NonFiniteLoss("boom")
        yield StepResult(torch.tensor(loss, dtype=torch.float64), 1, None, True)
