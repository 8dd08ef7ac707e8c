"""Where values lie, and round labels."""

import pytest

from instep.drawing.axis import Axis, decades, labels, round_ticks


def test_shares_by_hand() -> None:
    assert [Axis(2.0, 4.0).share(value) for value in (1.0, 2.0, 3.0, 4.0, 9.0)] == [0.0, 0.0, 0.5, 1.0, 1.0]
    assert Axis(0.01, 100.0, log=True).share(1.0) == pytest.approx(0.5)
    assert Axis(3.0, 3.0).share(3.0) == 0.5  # what is flat is in the middle


def test_an_axis_over_values() -> None:
    assert Axis.over([1.0, 3.0, 2.0]) == Axis(1.0, 3.0)
    assert Axis.over([0.0, 10.0], air=0.1) == Axis(-1.0, 11.0)
    wide = Axis.over([1.0, 100.0], log=True, air=0.5)
    assert [wide.low, wide.high] == pytest.approx([0.1, 1000.0])
    assert Axis.over([]) == Axis(0.0, 1.0)
    assert Axis.over([], log=True) == Axis(1.0, 10.0, log=True)


def test_ticks_are_round_and_inside() -> None:
    assert round_ticks(0.13, 0.91) == pytest.approx([0.2, 0.4, 0.6, 0.8])
    assert round_ticks(5.0, 5.0) == [5.0]
    assert decades(1e-3, 1.0) == pytest.approx([0.001, 0.01, 0.1, 1.0])
    assert Axis(1e-3, 20.0, log=True).ticks() == pytest.approx([0.001, 0.01, 0.1, 1.0, 10.0])
    assert Axis(2.0, 5.0, log=True).ticks() == pytest.approx([2.0, 3.0, 4.0, 5.0])  # less than a decade
    assert len(Axis(1e-30, 1e30, log=True).ticks()) <= 10


@pytest.mark.parametrize(
    ("ticks", "words"),
    [
        ([0.05, 0.1], ["0.05", "0.10"]),
        ([0.0, 20_000.0], ["0", "20,000"]),
        ([1e-5, 0.1], ["1e-05", "0.1"]),
        ([0.1, 1.0, 10.0], ["0.1", "1", "10"]),
        ([0.30000000000000004], ["0.3"]),
    ],
)
def test_labels(ticks: list[float], words: list[str]) -> None:
    assert labels(ticks) == words
