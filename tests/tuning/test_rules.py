"""Each rule on curves whose answer can be seen."""

import pytest

from instep.tuning.curve import Curve
from instep.tuning.rules import RULES, before_divergence, minimum_tenth, slope, steepest, valley
from tuning.curves import TYPICAL, curve


def test_the_steepest_point_is_where_most_is_lost_from_neighbour_to_neighbour() -> None:
    # Differences over two decades: … 2.0→1.2 at 1e-4: 0.8, 1.8→0.4 at 1e-3: 1.4, 1.2→0.2 at 1e-2: 1.0.
    assert steepest(TYPICAL) == pytest.approx(1e-3)
    assert slope(TYPICAL, 3) == pytest.approx(-1.4 / 4.605, rel=1e-3)


def test_the_valley_is_two_thirds_of_the_way_down_in_decades() -> None:
    # A tenth of the fall is made below 1.82: the last point above that is 1e-5. The lowest is 0.1, four decades on.
    assert valley(TYPICAL) == pytest.approx(10 ** (-5 + 4 * 2 / 3))


def test_the_valley_begins_at_its_last_rim() -> None:
    """A dip at the beginning is none of it."""
    dipped = curve([1.0, 2.0, 2.0, 2.0, 0.2, 4.0], first=1e-5)
    assert valley(dipped) == pytest.approx(10 ** (-2 + 2 / 3))


def test_a_tenth_of_the_minimum() -> None:
    assert minimum_tenth(TYPICAL) == pytest.approx(0.01)


def test_before_divergence_is_a_third_of_where_the_loss_has_risen() -> None:
    finer = Curve(
        (2.0,) * 9, tuple(0.01 * 2.0**i for i in range(9)), (2.0, 2.0, 1.0, 0.3, 0.2, 0.2, 0.2, 0.3, 6.0), smoothing=0.0
    )
    assert finer.lrs[8] == pytest.approx(2.56)
    assert before_divergence(finer) == pytest.approx(min(2.56 / 3, 0.64 / 1.5))
    flat = curve([2.0, 2.0, 2.0, 2.0, 2.0, 6.0])
    assert before_divergence(flat) == pytest.approx(0.1 / 3)


def test_before_divergence_is_not_above_where_the_loss_is_lowest() -> None:
    """Without noise the loss falls on while the learning rate is too high already, and takes long to show it."""
    early = curve([2.0, 2.0, 2.0, 2.0, 0.2, 3.0, 6.0])
    assert before_divergence(early) == pytest.approx(0.01 / 1.5)
    late = curve([2.0, 2.0, 2.0, 1.0, 0.3, 0.2, 0.25, 0.3, 0.3, 6.0], first=1e-9)
    assert before_divergence(late) == pytest.approx(1e-4 / 1.5)


def test_a_loss_that_comes_back_has_not_diverged() -> None:
    overshoot = curve([2.0, 2.0, 0.2, 1.5, 0.3, 0.25, 0.3, 5.0], first=1e-5)
    assert overshoot.lowest == 2
    assert overshoot.risen == 7


def test_no_rule_applies_where_nothing_is_to_be_seen() -> None:
    flat = curve([2.0] * 8)
    assert [rule(flat) for rule in RULES.values()] == [None] * 4
    falling = curve([2.0, 1.5, 1.0, 0.5])
    assert before_divergence(falling) is None
    assert steepest(falling) is not None


def test_slopes_go_by_the_logarithm_also_where_steps_are_uneven() -> None:
    uneven = type(TYPICAL)((2.0, 2.0, 2.0), (0.1, 0.2, 0.8), (2.0, 1.0, 0.0), smoothing=0.0)
    assert slope(uneven, 0) == pytest.approx(-1 / 0.6931, rel=1e-3)
    assert slope(uneven, 2) == pytest.approx(-1 / 1.3863, rel=1e-3)
    assert slope(curve([1.0]), 0) == 0.0
