"""Curves in one line."""

import math

from instep.text import bar, sparkline


def test_it_goes_from_the_lowest_to_the_highest_bar() -> None:
    assert sparkline(range(8), 8) == "▁▂▃▄▅▆▇█"
    assert sparkline([0.0, 7.0, 0.0], 40) == "▁█▁"


def test_many_values_are_drawn_by_the_means_of_their_stretches() -> None:
    assert sparkline([0, 2, 10, 12, 20, 22], 3) == "▁▅█"
    assert len(sparkline(range(1001), 40)) == 40


def test_what_is_flat_is_drawn_in_the_middle() -> None:
    assert sparkline([3.0] * 5, 5) == "▅▅▅▅▅"


def test_what_is_not_finite_is_marked() -> None:
    assert sparkline([0.0, math.nan, 7.0, math.inf], 4) == "▁×█×"
    assert sparkline([math.nan], 4) == "×"


def test_it_goes_from_where_one_says() -> None:
    assert sparkline([4.0, 8.0], 2, low=0.0) == "▅█"
    assert sparkline([0, 1 / 8 - 1e-9, 1 / 8, 0.5, 1], 5, low=0.0) == "▁▁▂▅█"
    assert sparkline([0.0, 0.0], 2, low=0.0) == "▁▁"


def test_a_bar_shows_whatever_is_there() -> None:
    assert [bar(share, 4) for share in (0.0, 0.01, 0.5, 1.0)] == ["", "█", "██", "████"]


def test_nothing_gives_nothing() -> None:
    assert sparkline([], 10) == sparkline([1.0], 0) == ""
