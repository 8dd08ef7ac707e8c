"""Sparse gradients and complex parameters: what an option cannot take is said with the parameter, by the first step."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import embedding
from torch.optim import SGD

from instep import UpdateCycle
from instep.errors import DescriptionError
from instep.optim.groups import param_groups
from instep.optim.penalty import Penalty


class Complex(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.tensor([[3 + 4j, 1j]]))


class Functional(nn.Module):
    """A table that is looked up without a layer that could say so."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.ones(5, 3))

    def forward(self, x: Tensor) -> Tensor:
        return embedding(x, self.table, sparse=True)


OPTIONS = [
    (
        {"clip_norm": 1.0},
        r"clip_norm=1\.0 cannot measure the sparse gradient of {}; make its layer with sparse=False, or leave clip",
    ),
    ({"clip_norm": math.inf}, r"clip_norm=inf cannot measure the sparse gradient of {}; .* or leave clip_norm= out"),
    ({"clip_value": 0.5}, r"clip_value=0\.5 cannot clip the sparse gradient of {}; .* or leave clip_value= out"),
    ({"l1": 0.5}, r"l1=0\.5 cannot be added to the sparse gradient of {}; .* or leave l1= out"),
    ({"l2": 0.5}, r"l2=0\.5 cannot be added to the sparse gradient of {}; .* or leave l2= out"),
]


@pytest.mark.parametrize(("options", "words"), OPTIONS, ids=lambda value: "".join(value) if isinstance(value, dict) else "")
def test_a_layer_with_sparse_gradients_is_refused_before_the_first_step(options: dict[str, Any], words: str) -> None:
    model = nn.Sequential(nn.Embedding(5, 3, sparse=True), nn.Linear(3, 2))
    with pytest.raises(DescriptionError, match=words.format(r"0\.weight")):
        UpdateCycle(SGD(model.parameters(), lr=0.1), model=model, **options)
    UpdateCycle(SGD(model.parameters(), lr=0.1), model=model)


@pytest.mark.parametrize(("options", "words"), OPTIONS, ids=lambda value: "".join(value) if isinstance(value, dict) else "")
def test_sparse_gradients_of_a_function_are_refused_at_the_first_step(options: dict[str, Any], words: str) -> None:
    model = Functional()
    cycle = UpdateCycle(SGD(model.parameters(), lr=0.1), model=model, **options)
    cycle.backward(model(torch.tensor([1, 2])).sum(), count=2)
    with pytest.raises(DescriptionError, match=words.format("table")):
        cycle.step()
    assert torch.equal(model.table, torch.ones(5, 3))


def test_without_the_model_a_parameter_has_the_name_of_its_group() -> None:
    model = Functional()
    cycle = UpdateCycle(SGD([{"params": [model.table], "name": "tables"}], lr=0.1), clip_norm=1.0)
    cycle.backward(model(torch.tensor([1])).sum(), count=1)
    with pytest.raises(DescriptionError, match="the sparse gradient of parameter 0 of group 'tables'"):
        cycle.step()


def test_values_are_clipped_where_the_sparse_group_has_no_limit() -> None:
    model = nn.Sequential(nn.Embedding(5, 3, sparse=True), nn.Linear(3, 2))
    optimizer = SGD(param_groups(model, {"0": {"lr": 0.1}, "1": {"lr": 0.1}}), lr=0.1)
    cycle = UpdateCycle(optimizer, model=model, clip_value={"1": 0.01})
    cycle.backward(model(torch.tensor([1, 2])).sum(), count=2)
    assert cycle.step().clipped


def test_values_of_complex_gradients_have_no_order() -> None:
    model = Complex()
    words = r"clip_value=0\.5 cannot clip the complex gradient of table: complex numbers have no order; use clip_norm=, or a"
    with pytest.raises(DescriptionError, match=words):
        UpdateCycle(SGD(model.parameters(), lr=0.1), model=model, clip_value=0.5)
    UpdateCycle(SGD(model.parameters(), lr=0.1), model=model, clip_norm=0.5)


def test_l1_and_l2_of_complex_parameters_are_those_of_autograd() -> None:
    model = Complex()
    value = 0.5 * model.table.abs().sum() + 0.25 * (model.table.abs() ** 2).sum()
    (expected,) = torch.autograd.grad(value, [model.table])
    added = Penalty(SGD(model.parameters(), lr=0.1), l1=0.5, l2=0.25, model=model).add()
    assert added.item() == pytest.approx(value.item())  # 0.5·(5 + 1) + 0.25·(25 + 1) = 9.5
    assert model.table.grad is not None
    assert torch.allclose(model.table.grad, expected)
