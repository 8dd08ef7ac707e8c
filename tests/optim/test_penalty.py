"""Penalty: the gradients and the value of l1·Σ|p| + l2·Σp², by hand and by autograd."""

import re
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.optim import SGD

from instep.errors import DescriptionError
from instep.optim.freeze import freeze, unfreeze
from instep.optim.groups import param_groups
from instep.optim.penalty import Penalty
from tiny import TASKS, Task


def line(*weights: float) -> nn.Linear:
    model = nn.Linear(len(weights), 1)
    model.weight.data = torch.tensor([weights])
    model.bias.data = torch.tensor([7.0])
    return model


def gradient(parameter: Any) -> list[float]:
    assert parameter.grad is not None
    found: list[float] = parameter.grad.flatten().tolist()
    return found


# --- By hand


def test_l1_and_l2_by_hand() -> None:
    model = line(2.0, -3.0, 0.0)
    model.weight.grad = torch.tensor([[10.0, 10.0, 10.0]])
    value = Penalty(SGD(model.parameters(), lr=0.1), l1=0.5, l2=0.25).add()
    assert value.item() == 0.5 * 5 + 0.25 * 13
    assert value.ndim == 0
    assert gradient(model.weight) == [10 + 0.5 + 1.0, 10 - 0.5 - 1.5, 10.0]  # l1·sign(p) + 2·l2·p; nothing at 0
    assert model.bias.grad is None


@pytest.mark.parametrize(("l1", "l2", "value", "slope"), [(0.5, 0, 1.0, 0.5), (0, 0.5, 2.0, 2.0)])
def test_each_alone(l1: float, l2: float, value: float, slope: float) -> None:
    model = line(2.0)
    assert Penalty(SGD(model.parameters(), lr=0.1), l1=l1, l2=l2).add().item() == value
    assert gradient(model.weight) == [slope]


def test_bias_and_norm_are_spared_unless_asked_for() -> None:
    model = nn.ModuleDict({"linear": nn.Linear(2, 2), "norm": nn.LayerNorm([2, 2])})
    optimizer = SGD(model.parameters(), lr=0.1)
    Penalty(optimizer, l2=1.0, model=model).add()
    assert [p.grad is not None for p in model.parameters()] == [True, False, False, False]
    optimizer.zero_grad()
    Penalty(optimizer, l2=1.0).add()  # without the model, a norm's weight of two dimensions cannot be told
    assert [p.grad is not None for p in model.parameters()] == [True, False, True, True]
    optimizer.zero_grad()
    Penalty(optimizer, l2=1.0, model=model, bias_and_norm=True).add()
    assert all(p.grad is not None for p in model.parameters())


def test_a_parameter_that_the_loss_did_not_touch_is_penalised_and_a_frozen_one_is_not() -> None:
    model = nn.ModuleDict({"used": line(1.0), "unused": line(2.0), "frozen": line(3.0)})
    optimizer = SGD(param_groups(model), lr=0.1)
    penalty = Penalty(optimizer, l2=0.5, model=model)
    freeze(model, "frozen")
    model["used"].weight.grad = torch.tensor([[1.0]])
    assert penalty.add().item() == 0.5 * (1 + 4)
    assert gradient(model["used"].weight) == [2.0]
    assert gradient(model["unused"].weight) == [2.0]
    assert model["frozen"].weight.grad is None
    freeze(model)
    assert penalty.add().item() == 0.0
    unfreeze(model)
    assert penalty.add().item() == 0.5 * (1 + 4 + 9)


def test_groups_that_join_later_are_penalised() -> None:
    model, late = line(1.0), line(2.0)
    optimizer = SGD(model.parameters(), lr=0.1)
    penalty = Penalty(optimizer, l1=1.0)
    optimizer.add_param_group({"params": list(late.parameters())})
    assert penalty.add().item() == 3.0


def test_half_precision_sums_are_not_rounded() -> None:
    model = nn.Linear(64, 64).bfloat16()
    model.weight.data.fill_(1.0)
    value = Penalty(SGD(model.parameters(), lr=0.1), l1=1.0, l2=1.0).add()
    assert value.dtype == torch.float32
    assert value.item() == 2 * 64 * 64


# --- By autograd


@settings(max_examples=40, deadline=None)
@given(
    task=st.sampled_from(TASKS),
    seed=st.integers(0, 1000),
    l1=st.sampled_from([0.0, 1e-3, 0.5]),
    l2=st.sampled_from([0.0, 1e-2, 2.0]),
    bias_and_norm=st.booleans(),
)
def test_it_is_the_gradient_of_the_objective_with_its_penalty(
    task: Task, seed: int, l1: float, l2: float, bias_and_norm: bool
) -> None:
    model = task.build(seed)
    x, y = task.draw(4, seed)
    optimizer = SGD(model.parameters(), lr=0.1)
    penalised = [p for p in model.parameters() if bias_and_norm or p.ndim > 1]

    F.cross_entropy(model(x), y).backward()
    value = Penalty(optimizer, l1=l1, l2=l2, model=model, bias_and_norm=bias_and_norm).add()
    ours = [p.grad for p in model.parameters()]

    optimizer.zero_grad()
    penalty = torch.stack([l1 * p.abs().sum() + l2 * p.square().sum() for p in penalised]).sum()
    (F.cross_entropy(model(x), y) + penalty).backward()
    torch.testing.assert_close(value.double(), penalty.detach(), rtol=1e-12, atol=0)
    for p, ours_of_p in zip(model.parameters(), ours, strict=True):
        torch.testing.assert_close(ours_of_p, p.grad, rtol=1e-12, atol=1e-14)


def test_l2_is_twice_the_decay_of_plain_sgd() -> None:
    """SGD's weight_decay adds decay·p to the gradient, which is l2 = decay / 2."""
    models = [line(2.0, -3.0), line(2.0, -3.0)]
    plain = SGD(models[0].parameters(), lr=0.1)
    decayed = SGD(param_groups(models[1], no_decay=True), lr=0.1, weight_decay=0.5)
    penalty = Penalty(plain, l2=0.25)
    for model, optimizer in zip(models, (plain, decayed), strict=True):
        model(torch.ones(1, 2)).sum().backward()
        if optimizer is plain:
            penalty.add()
        optimizer.step()
    assert torch.equal(models[0].weight, models[1].weight)
    assert torch.equal(models[0].bias, models[1].bias)


# --- Errors


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"l1": -1.0}, "l1=-1.0 is no factor of a penalty; use a number, 0 or more."),
        ({"l2": float("nan")}, "l2=nan is no factor of a penalty; use a number, 0 or more."),
        ({"l2": "0.1"}, "l2='0.1' is no factor of a penalty; use a number, 0 or more."),
    ],
)
def test_factors_that_make_no_sense(arguments: Any, said: str) -> None:
    with pytest.raises(DescriptionError, match=re.escape(said)):
        Penalty(SGD(line(1.0).parameters(), lr=0.1), **arguments)


def test_a_penalty_on_nothing_is_said() -> None:
    optimizer = SGD(nn.LayerNorm(3).parameters(), lr=0.1)
    with pytest.raises(DescriptionError, match=r"l1=0\.0, l2=0\.1 act on nothing: all parameters .* pass bias_and_norm=True"):
        Penalty(optimizer, l2=0.1)
    assert not Penalty(optimizer).active
    assert Penalty(optimizer).add().item() == 0.0
