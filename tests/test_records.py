"""What crosses rooms: differences between descriptions, and the values of tensors."""

from typing import Any

import pytest
import torch

from instep.records import SavedTensors, Update, differences


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({"a": 1}, {"a": 2}, [("a", 1, 2)]),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 1, "c": 3}}, [("a.c", 2, 3)]),
        ({"a": 1}, {"b": 1}, [("a", 1, None), ("b", None, 1)]),
        ({"a": [{"lr": 1}, {"lr": 2}]}, {"a": [{"lr": 1}, {"lr": 3}]}, [("a.1.lr", 2, 3)]),
        ({"a": [1, 2]}, {"a": [1]}, [("a", [1, 2], [1])]),
        ({"a": None}, {"a": {"b": 1}}, [("a.b", None, 1)]),
    ],
)
def test_differences(before: Any, now: Any, expected: list[Any]) -> None:
    assert list(differences(before, now)) == expected


def test_they_stand_below_a_place() -> None:
    assert [change.where for change in differences({"a": 1}, {"a": 2}, "data")] == ["data.a"]
    assert [change.where for change in differences(1, 2, "data")] == ["data"]


def test_values_come_back_where_they_lay() -> None:
    weight, statistic = torch.nn.Parameter(torch.ones(2)), torch.zeros(3).t()
    view = weight.detach()
    saved = SavedTensors([weight, statistic])
    with torch.no_grad():
        weight.mul_(5)
    statistic.add_(1)
    saved.put_back()
    assert view.tolist() == [1.0, 1.0]
    assert statistic.tolist() == [0.0] * 3
    assert weight.requires_grad


def test_an_update_is_one_line_in_the_numbers_of_its_fields() -> None:
    update = Update(12, 1, 3, torch.tensor(0.43214), 16, 16, (0.003, 0.01), torch.tensor(1.2), False)
    assert str(update) == repr(update) == "step 12 (epoch 1, batch 3): loss 0.4321, lr 0.003, grad norm 1.200"
    assert str(update._replace(grad_norm=None)) == "step 12 (epoch 1, batch 3): loss 0.4321, lr 0.003"
    assert str(update._replace(skipped=True, grad_norm=None)) == "step 12 (epoch 1, batch 3): skipped, lr 0.003"
    several = update._replace(grad_norm=None, by_objective={"d": update, "g": update._replace(loss=torch.tensor(2.0))})
    assert str(several) == "step 12 (epoch 1, batch 3): loss d 0.4321, loss g 2.000, lr 0.003"
