"""What differs between two descriptions is named by where it stands."""

from typing import Any

import pytest

from instep.records import differences


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
