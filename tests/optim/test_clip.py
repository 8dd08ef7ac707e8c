"""Clipping: together or by group, what is measured and said, and names for gradients that are not finite."""

import copy
import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_, clip_grad_value_
from torch.optim import SGD, Optimizer

from instep.errors import DescriptionError
from instep.optim.clip import Clipping, nonfinite_gradients
from instep.optim.groups import param_groups
from tiny import Cnn


def optimizer_of(*gradients: list[float], **options: list[Any]) -> SGD:
    """One group a, b, c, … for each gradient."""
    groups = []
    for index, gradient in enumerate(gradients):
        parameter = nn.Parameter(torch.zeros(len(gradient)))
        parameter.grad = torch.tensor(gradient)
        given = {name: values[index] for name, values in options.items() if values[index] is not None}
        groups.append({"params": [parameter], "name": "abc"[index], **given})
    return SGD(groups, lr=1.0)


def gradients(optimizer: Optimizer) -> list[list[float]]:
    return [p.grad.tolist() for group in optimizer.param_groups for p in group["params"]]


def gradient_of(parameter: Tensor) -> Tensor:
    assert parameter.grad is not None
    return parameter.grad


# --- All together


def test_the_norm_is_that_of_all_gradients() -> None:
    optimizer = optimizer_of([3.0], [4.0])
    norm, clipped = Clipping(optimizer, norm=1.0).apply()
    assert norm is not None
    assert (norm.item(), clipped.item()) == (5.0, True)
    assert gradients(optimizer) == [pytest.approx([0.6]), pytest.approx([0.8])]
    norm, clipped = Clipping(optimizer, norm=1.5).apply()
    assert norm is not None
    assert norm.item() == pytest.approx(1.0)
    assert clipped.item() is False
    assert clipped.dtype == torch.bool
    assert clipped.ndim == 0


def test_it_is_bitwise_torchs_own() -> None:
    torch.manual_seed(0)
    ours = Cnn()
    theirs = copy.deepcopy(ours)
    x = torch.randn(4, 1, 6, 6)
    for model in (ours, theirs):
        model(x).square().mean().backward()
    norm, _ = Clipping(SGD(ours.parameters(), lr=0.1), norm=0.01, value=0.001).apply()
    assert norm is not None
    assert torch.equal(norm, clip_grad_norm_(theirs.parameters(), 0.01))
    clip_grad_value_(theirs.parameters(), 0.001)
    assert all(torch.equal(gradient_of(p), gradient_of(q)) for p, q in zip(ours.parameters(), theirs.parameters(), strict=True))


def test_by_value() -> None:
    optimizer = optimizer_of([3.0, -0.5], [-4.0])
    norm, clipped = Clipping(optimizer, value=1.0).apply()
    assert (norm, clipped.item()) == (None, True)
    assert gradients(optimizer) == [[1.0, -0.5], [-1.0]]
    assert not Clipping(optimizer, value=1.0).apply().clipped.item()
    assert Clipping(optimizer_of([0.5, -2.0]), value=1.0).apply().clipped.item()


def test_infinity_measures_and_leaves_the_gradients_as_they_are() -> None:
    """torch's clip_grad_norm_(…, inf) makes nan of every gradient where the norm is infinite."""
    optimizer = optimizer_of([3e38, 3e38], [1.0])
    norm, clipped = Clipping(optimizer, norm=math.inf).apply()
    assert norm is not None
    assert (norm.item(), clipped.item()) == (math.inf, False)
    assert gradients(optimizer) == [pytest.approx([3e38, 3e38]), [1.0]]


def test_parameters_without_gradients_do_not_count() -> None:
    optimizer = optimizer_of([3.0], [4.0])
    optimizer.param_groups[1]["params"][0].grad = None
    norm, _ = Clipping(optimizer, norm=1.0).apply()
    assert norm is not None
    assert norm.item() == 3.0
    optimizer.zero_grad()
    norm, clipped = Clipping(optimizer, norm=1.0, value=1.0).apply()
    assert norm is not None
    assert (norm.item(), clipped.item()) == (0.0, False)


# --- By group


def test_a_mapping_gives_limits_to_groups() -> None:
    optimizer = optimizer_of([3.0], [4.0], [12.0])
    norm, clipped = Clipping(optimizer, norm={"a": 1.0, "*": 1.0}).apply()
    assert norm is not None
    assert norm.item() == pytest.approx(13.0)  # of everything
    assert clipped.item()
    (a,), (b,), (c,) = gradients(optimizer)
    assert a == pytest.approx(1.0)
    assert math.hypot(b, c) == pytest.approx(1.0)  # b and c are measured together


def test_groups_that_are_not_named_are_measured_and_not_clipped() -> None:
    optimizer = optimizer_of([3.0], [4.0])
    norm, clipped = Clipping(optimizer, norm={"a": 100.0}).apply()
    assert norm is not None
    assert (norm.item(), clipped.item()) == (5.0, False)
    assert gradients(optimizer) == [[3.0], [4.0]]


def test_a_groups_own_option_goes_first() -> None:
    optimizer = optimizer_of([3.0], [3.0], [4.0], clip_norm=[0.5, None, None])
    clipping = Clipping(optimizer, norm=1.0)
    clipping.apply()
    assert gradients(optimizer) == [pytest.approx([0.5]), pytest.approx([0.6]), pytest.approx([0.8])]
    optimizer = optimizer_of([3.0], [-3.0], clip_value=[0.5, None])
    assert Clipping(optimizer).active
    assert Clipping(optimizer).apply().norm is None
    assert gradients(optimizer) == [[0.5], [-3.0]]


@pytest.mark.parametrize("by", ["rule", "mapping"])
def test_a_rule_and_what_it_was_split_into_are_clipped_together(by: str) -> None:
    model = nn.ModuleDict({"base": nn.Linear(2, 2), "head": nn.Linear(2, 2)})
    options = {"clip_norm": 1.0} if by == "rule" else {"lr": 0.1}
    optimizer = SGD(param_groups(model, {"base": options}, no_decay=True), lr=0.1)
    assert len(optimizer.param_groups) == 4
    for parameter in model.parameters():
        parameter.grad = torch.full_like(parameter, 2.0)
    Clipping(optimizer, norm=None if by == "rule" else {"base": 1.0}).apply()
    assert torch.cat([gradient_of(p).flatten() for p in model["base"].parameters()]).norm().item() == pytest.approx(1.0)
    assert {gradient_of(p).max().item() for p in model["head"].parameters()} == {2.0}


def test_there_may_be_nothing_to_do() -> None:
    optimizer = optimizer_of([3.0])
    assert not Clipping(optimizer).active
    assert Clipping(optimizer, value=1.0).active
    norm, clipped = Clipping(optimizer).apply()
    assert (norm, clipped.item()) == (None, False)


def test_groups_that_join_later_are_clipped_too() -> None:
    optimizer = optimizer_of([3.0])
    clipping = Clipping(optimizer, norm=1.0)
    late = nn.Parameter(torch.zeros(1))
    late.grad = torch.tensor([4.0])
    optimizer.add_param_group({"params": [late]})
    norm, _ = clipping.apply()
    assert norm is not None
    assert norm.item() == 5.0


@settings(max_examples=40, deadline=None)
@given(
    numbers=st.lists(st.lists(st.floats(-1e3, 1e3, width=32), min_size=1, max_size=3), min_size=1, max_size=3),
    limit=st.floats(1e-2, 1e3),
    own=st.floats(1e-2, 1e3),
)
def test_no_bundle_is_above_its_limit_and_directions_stay(numbers: list[list[float]], limit: float, own: float) -> None:
    optimizer = optimizer_of(*numbers, clip_norm=[own, None, None])
    before = [torch.tensor(gradient) for gradient in gradients(optimizer)]
    norm, clipped = Clipping(optimizer, norm=limit).apply()
    after = [torch.tensor(gradient) for gradient in gradients(optimizer)]
    assert norm is not None
    torch.testing.assert_close(norm, torch.cat(before).norm())
    others = torch.cat(before[1:]) if len(before) > 1 else torch.zeros(1)
    assert after[0].norm() <= own * (1 + 1e-5)
    assert torch.cat([torch.zeros(1), *after[1:]]).norm() <= limit * (1 + 1e-5)
    assert clipped.item() == bool(before[0].norm() > own or others.norm() > limit)
    for old, new in zip(before, after, strict=True):
        assert torch.equal(old.sign() * new.abs(), new)


# --- Not finite


def test_gradients_that_are_not_finite_are_named() -> None:
    model = nn.ModuleDict({"base": nn.Linear(2, 3), "head": nn.Linear(3, 2)})
    optimizer = SGD(param_groups(model, {"head": {"lr": 0.1}}), lr=0.1)
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    assert nonfinite_gradients(optimizer, model) == ()
    set_first(model["base"].weight, math.nan, math.nan, -math.inf)
    set_first(model["head"].bias, math.inf, math.inf)
    assert nonfinite_gradients(optimizer, model) == ("head.bias (2 inf of 2)", "base.weight (2 nan and 1 inf of 6)")
    assert nonfinite_gradients(optimizer) == (
        "parameter 1 of group 'head' (2 inf of 2)",
        "parameter 0 of group 'rest' (2 nan and 1 inf of 6)",
    )
    named = SGD(model.named_parameters(), lr=0.1)
    assert nonfinite_gradients(named) == ("base.weight (2 nan and 1 inf of 6)", "head.bias (2 inf of 2)")


def set_first(parameter: Any, *values: float) -> None:
    gradient: Tensor = parameter.grad
    gradient.view(-1)[: len(values)] = torch.tensor(values)


# --- Errors


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"norm": 0.0}, r"clip_norm=0\.0 leaves no gradient; use a number above 0, or None for no clipping"),
        ({"value": math.nan}, r"clip_value=nan leaves no gradient"),
        ({"norm": [1.0]}, r"clip_norm=\[1\.0\] is no limit; use a number, or a mapping of numbers by the groups' names\."),
        ({"value": {"a": True}}, r"clip_value\['a'\]=True is no limit"),
        ({"norm": {"a": -1.0}}, r"clip_norm\['a'\]=-1\.0 leaves no gradient"),
        ({"norm": {"base": 1.0}}, r"clip_norm names the group 'base', which the optimizer does not have; its groups are a, b\."),
    ],
)
def test_limits_that_make_no_sense(arguments: Any, said: str) -> None:
    with pytest.raises(DescriptionError, match=said):
        Clipping(optimizer_of([1.0], [1.0]), **arguments)


def test_a_groups_own_limit_is_checked_too() -> None:
    with pytest.raises(DescriptionError, match=r"clip_norm of group 'b'=0 leaves no gradient"):
        Clipping(optimizer_of([1.0], [1.0], clip_norm=[None, 0]))
    with pytest.raises(DescriptionError, match=r"'base', which the optimizer does not have; its groups are none: make them with"):
        Clipping(SGD(nn.Linear(1, 1).parameters(), lr=0.1), norm={"base": 1.0})
