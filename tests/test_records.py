"""What crosses rooms: differences between descriptions, and the values of tensors."""

from typing import Any

import pytest
import torch

from instep.records import SavedTensors, differences


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({"a": 1}, {"a": 2}, [("a", 1, 2)]),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 1, "c": 3}}, [("a.c", 2, 3)]),
        ({"a": 1}, {"b": 1}, [("a", 1, None), ("b", None, 1)]),
        ({"a": [{"lr": 1}, {"lr": 2}]}, {"a": [{"lr": 1}, {"lr": 3}]}, [("a.1.lr", 2, 3)]),
        ({"a": [1, 2]}, {"a": [1]}, [("a", [1, 2], [1])]),
        ({"a": None}, {"a": {"b": 1}}, [("a", None, {"b": 1})]),
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
