"""What is seen in a curve: numbers that can be worked out by hand."""

import math
import random

import pytest

from instep.tuning.curve import Curve, merged, narrowing, smooth
from tuning.curves import TYPICAL, curve


def test_smoothing_weighs_neighbours_on_both_sides_and_divides_by_the_weights_there_are() -> None:
    # At the first point the weights are 1, ½, ¼; in the middle ½, 1, ½.
    assert smooth([4.0, 0.0, 8.0], 0.5) == pytest.approx([(4 + 2) / 1.75, (2 + 4) / 2, (1 + 8) / 1.75])
    assert smooth([1.0, 5.0, 2.0], 0.0) == [1.0, 5.0, 2.0]
    assert smooth([3.0] * 7, 0.9) == pytest.approx([3.0] * 7)  # no bias at the ends


def test_smoothing_does_not_lag() -> None:
    """An average over the past alone would put the lowest point of a symmetric valley behind its middle."""
    valley = [abs(i - 10) for i in range(21)]
    smoothed = smooth(valley, 0.8)
    assert smoothed.index(min(smoothed)) == 10
    assert smoothed == pytest.approx(smoothed[::-1])


def test_smoothing_narrows_noise_by_the_factor_it_says() -> None:
    draw = random.Random(0)
    noise = [draw.gauss(0, 1) for _ in range(20_000)]
    narrowed = smooth(noise, 0.6)
    assert math.sqrt(sum(x * x for x in narrowed) / len(narrowed)) == pytest.approx(narrowing(0.6), rel=0.03)
    assert narrowing(0.0) == 1.0


def test_the_typical_curve() -> None:
    assert (TYPICAL.level, TYPICAL.ceiling) == (2.0, 6.0)
    assert TYPICAL.lowest == 5
    assert TYPICAL.fall == pytest.approx(1.8)
    assert TYPICAL.falls
    assert TYPICAL.risen == 7  # 0.3 is less than a quarter of the fall above the lowest point


def test_doubt_adds_the_noise_of_a_point_to_that_of_the_level() -> None:
    found = curve([2.0, 2.4, 2.0, 2.4], before=(2.0, 2.4, 2.0, 2.4))
    one = 1.4826 * 0.4 / math.sqrt(2)
    assert found.noise == pytest.approx(one)
    assert found.doubt == pytest.approx(4 * math.hypot(one, 1.25 * one / 2))
    assert curve([2.0] * 4).doubt == pytest.approx(0.02)  # without noise: a hundredth of the level


def test_what_has_diverged_is_cut_off_at_the_ceiling() -> None:
    wild = curve([2.0, 1.0, 500.0, math.inf])
    assert wild.capped == [2.0, 1.0, 6.0, 6.0]
    assert curve([2.0, math.nan]).capped == [2.0, 6.0]


def test_a_level_near_zero_takes_its_scale_from_the_spread_over_batches() -> None:
    """A trained model: three times the level is one hard batch."""
    trained = curve([0.01, 0.5, 0.02], before=(0.0, 0.0, 0.01, 0.4, 0.01))
    assert trained.level == 0.01
    assert trained.ceiling > 1.0
    assert trained.capped == [0.01, 0.5, 0.02]


def test_a_negative_level_has_its_ceiling_above_it() -> None:
    assert curve([-5.0], before=(-5.0, -5.0, -5.0)).ceiling == 5.0


def test_a_fall_within_the_noise_is_none() -> None:
    draw = random.Random(1)
    losses = [2.0 + draw.gauss(0, 0.1) for _ in range(100)]
    lrs = tuple(1e-7 * 1.2**i for i in range(100))
    noise = Curve(tuple(losses[:9]), lrs, tuple(losses), 0.6)
    assert noise.noise == pytest.approx(0.1 * narrowing(0.6), rel=0.4)
    assert not noise.falls
    assert noise.risen is None


def test_noise_is_seldom_taken_for_a_fall() -> None:
    """Over 300 curves of pure noise."""
    draw = random.Random(2)
    lrs = tuple(1e-7 * 1.2**i for i in range(100))
    seen = 0
    for _ in range(300):
        losses = [2.0 + draw.gauss(0, 0.3) for _ in range(109)]
        found = Curve(tuple(losses[:9]), lrs, tuple(losses[9:]), 0.6)
        seen += found.falls or found.risen is not None
    assert seen <= 6


def test_a_slope_hardly_counts_as_noise() -> None:
    assert curve([2.0 - 0.01 * i for i in range(100)]).noise < 0.02


def test_a_curve_that_only_rises_has_risen_from_its_level() -> None:
    assert curve([5.9]).risen == 0
    assert curve([2.0, 2.0, 2.0, 2.0, 5.0]).risen == 4


def test_merging_takes_means_and_leaves_what_ended_at_its_ceiling() -> None:
    one = curve([2.0, 1.0, 0.5, 1.0])
    other = curve([2.0, 2.0, math.inf], before=(4.0,) * 9)
    both = merged([one, other])
    assert both.before == (3.0,) * 9
    assert both.lrs == one.lrs
    assert both.losses == (2.0, 1.5, (0.5 + 12) / 2, (1.0 + 12) / 2)
    assert merged([one]) is one
