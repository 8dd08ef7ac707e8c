"""Which learning rate, why, how sure; or why none. By the words."""

import random

import pytest

from instep.tuning.curve import Curve, merged
from instep.tuning.recommendation import recommend, spread
from tuning.curves import TYPICAL, curve


def test_a_curve_that_falls_and_breaks_is_followed_to_before_it_breaks() -> None:
    choice = recommend(TYPICAL, [TYPICAL, TYPICAL])
    assert choice.suggestion == pytest.approx(0.1 / 1.5)
    assert choice.rule == "before divergence"
    assert choice.reason == (
        "the loss falls from 2 to 0.2 at lr 0.1 and has risen at lr 10; "
        "this is a little below lr 0.1, up to where it stays there."
    )
    # steepest is 1.82 decades away, the valley 1.16, a tenth of the minimum 0.82; two would be too many. The repeats agree.
    assert choice.confidence == pytest.approx((3 - 1.82 / 2 - 1.16 / 2 - 0.82 / 2) / 3, abs=0.01)


def test_where_the_floor_is_wide_it_is_a_third_of_the_rise() -> None:
    wide = Curve((2.0,) * 9, tuple(0.01 * 1.5**i for i in range(8)), (2.0, 1.0, 0.3, 0.2, 0.2, 0.2, 0.2, 6.0), smoothing=0.0)
    choice = recommend(wide, [wide, wide])
    assert choice.suggestion == pytest.approx(wide.lrs[7] / 3)
    assert choice.reason.endswith("and has risen at lr 0.17; this is that divided by 3.")


def test_a_doubtful_suggestion_says_that_the_rules_disagree() -> None:
    choice = recommend(TYPICAL, [TYPICAL])
    assert choice.confidence < 0.3
    assert choice.reason.endswith(
        " But the rules disagree, from 0.001 to 0.067: a short cycle may diverge here; smaller is safer."
    )
    assert "disagree" not in recommend(TYPICAL, [TYPICAL, TYPICAL]).reason


def test_without_a_repeat_half_of_the_confidence_is_left() -> None:
    assert recommend(TYPICAL, [TYPICAL]).confidence == pytest.approx(recommend(TYPICAL, [TYPICAL] * 2).confidence / 2, abs=0.01)


def test_repeats_that_differ_cost_confidence() -> None:
    other = Curve(TYPICAL.before, tuple(lr * 3 for lr in TYPICAL.lrs), TYPICAL.losses, 0.0)
    assert 0 < recommend(TYPICAL, [TYPICAL, other]).confidence < 0.6 * recommend(TYPICAL, [TYPICAL, TYPICAL]).confidence


def test_a_curve_that_does_not_break_gives_its_steepest_point() -> None:
    falling = curve([2.0, 2.0, 2.0, 1.5, 0.6, 0.4])
    choice = recommend(falling, [falling, falling])
    assert choice.rule == "steepest"
    assert choice.suggestion == pytest.approx(1e-3)
    assert choice.reason == (
        "the loss falls from 2 to 0.4 at lr 0.1 and does not diverge up to 0.1, so this is where it falls fastest; "
        "a larger high= would show where it breaks."
    )


def test_a_curve_that_only_breaks_gives_a_doubtful_answer() -> None:
    trained = curve([0.1] * 6 + [0.3], before=(0.1, 0.1, 0.1))
    choice = recommend(trained, [trained, trained])
    assert choice.suggestion == pytest.approx(1 / 3)
    assert choice.confidence <= 0.25
    assert "does not fall from 0.1 within the test (is the model trained already?), and has risen at lr 1;" in choice.reason


def test_flat() -> None:
    flat = curve([2.0, 1.999, 2.0, 2.001, 2.0])
    choice = recommend(flat, [flat, flat])
    assert (choice.suggestion, choice.rule, choice.confidence) == (None, None, 0.0)
    assert choice.reason.startswith("flat: from lr 1e-06 to 0.01 the loss stays at 2 (the lowest is 2); use a larger high=")


def test_diverging_at_once() -> None:
    wild = curve([3.0, 5.0, 9.0], first=1.0)
    assert recommend(wild, [wild]).suggestion is None
    assert recommend(wild, [wild]).reason == "it diverges at once: the loss has risen at lr 1 already; use a smaller low= than 1."


def noisy(seed: int, spread: float) -> Curve:
    draw = random.Random(seed)
    losses = [2.0 + draw.gauss(0, spread) for _ in range(109)]
    return Curve(tuple(losses[:9]), tuple(1e-7 * 1.2**i for i in range(100)), tuple(losses[9:]), 0.6)


def test_noise() -> None:
    sweeps = [noisy(0, 2.0), noisy(1, 2.0)]
    choice = recommend(merged(sweeps), sweeps)
    assert choice.suggestion is None
    assert choice.reason.startswith("noise: the loss varies by ±")
    assert "use larger batches, or more steps=" in choice.reason
    calm = [noisy(0, 0.05), noisy(1, 0.05)]
    assert recommend(merged(calm), calm).reason.startswith("flat:")


def test_repeats_that_contradict_each_other_are_noise() -> None:
    other = Curve(TYPICAL.before, tuple(lr * 100 for lr in TYPICAL.lrs), TYPICAL.losses, 0.0)
    choice = recommend(TYPICAL, [TYPICAL, other])
    assert choice.suggestion is None
    assert choice.reason == (
        "noise: on other batches the same test gives anything from 0.067 to 6.7; use larger batches, or more steps=."
    )


def test_a_rise_that_only_one_repeat_shows_is_noise() -> None:
    rises, flat = curve([2.0] * 6 + [5.0]), curve([2.0] * 7)
    both = merged([rises, flat])
    assert both.risen == 6
    assert recommend(both, [rises, flat]).reason.startswith(
        "noise: the loss does not fall, and only sometimes rises at the end; use"
    )


def test_spread_is_in_decades() -> None:
    assert spread([0.1, None, 10.0]) == pytest.approx(2.0)
    assert spread([0.1, None]) is None
