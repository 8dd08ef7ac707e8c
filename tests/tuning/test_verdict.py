"""Which learning rate, why, how sure; or why none. By the words."""

import random

import pytest

from instep.tuning.curve import Curve, merged
from instep.tuning.verdict import judge, spread
from tuning.curves import TYPICAL, curve


def test_a_curve_that_falls_and_breaks_is_followed_to_before_it_breaks() -> None:
    verdict = judge(TYPICAL, [TYPICAL, TYPICAL])
    assert verdict.suggestion == pytest.approx(0.1 / 1.5)
    assert verdict.rule == "before divergence"
    assert verdict.reason == (
        "the loss falls from 2 to 0.2 at lr 0.1 and has risen at lr 10; "
        "this is a little below lr 0.1, up to where it stays there."
    )
    # steepest is 1.82 decades away, the valley 1.16, a tenth of the minimum 0.82; two would be too many. The repeats agree.
    assert verdict.confidence == pytest.approx((3 - 1.82 / 2 - 1.16 / 2 - 0.82 / 2) / 3, abs=0.01)


def test_where_the_floor_is_wide_it_is_a_third_of_the_rise() -> None:
    wide = Curve((2.0,) * 9, tuple(0.01 * 1.5**i for i in range(8)), (2.0, 1.0, 0.3, 0.2, 0.2, 0.2, 0.2, 6.0), smoothing=0.0)
    verdict = judge(wide, [wide, wide])
    assert verdict.suggestion == pytest.approx(wide.lrs[7] / 3)
    assert verdict.reason.endswith("and has risen at lr 0.17; this is that divided by 3.")


def test_a_doubtful_suggestion_says_that_the_rules_disagree() -> None:
    verdict = judge(TYPICAL, [TYPICAL])
    assert verdict.confidence < 0.3
    assert verdict.reason.endswith(
        " But the rules disagree, from 0.001 to 0.067: a short cycle may diverge here; smaller is safer."
    )
    assert "disagree" not in judge(TYPICAL, [TYPICAL, TYPICAL]).reason


def test_without_a_repeat_half_of_the_confidence_is_left() -> None:
    assert judge(TYPICAL, [TYPICAL]).confidence == pytest.approx(judge(TYPICAL, [TYPICAL] * 2).confidence / 2, abs=0.01)


def test_repeats_that_differ_cost_confidence() -> None:
    other = Curve(TYPICAL.before, tuple(lr * 3 for lr in TYPICAL.lrs), TYPICAL.losses, 0.0)
    assert 0 < judge(TYPICAL, [TYPICAL, other]).confidence < 0.6 * judge(TYPICAL, [TYPICAL, TYPICAL]).confidence


def test_a_curve_that_does_not_break_gives_its_steepest_point() -> None:
    falling = curve([2.0, 2.0, 2.0, 1.5, 0.6, 0.4])
    verdict = judge(falling, [falling, falling])
    assert verdict.rule == "steepest"
    assert verdict.suggestion == pytest.approx(1e-3)
    assert verdict.reason == (
        "the loss falls from 2 to 0.4 at lr 0.1 and does not diverge up to 0.1, so this is where it falls fastest; "
        "a larger high= would show where it breaks."
    )


def test_a_curve_that_only_breaks_gives_a_doubtful_answer() -> None:
    trained = curve([0.1] * 6 + [0.3], before=(0.1, 0.1, 0.1))
    verdict = judge(trained, [trained, trained])
    assert verdict.suggestion == pytest.approx(1 / 3)
    assert verdict.confidence <= 0.25
    assert "does not fall from 0.1 within the test (is the model trained already?), and has risen at lr 1;" in verdict.reason


def test_flat() -> None:
    flat = curve([2.0, 1.999, 2.0, 2.001, 2.0])
    verdict = judge(flat, [flat, flat])
    assert (verdict.suggestion, verdict.rule, verdict.confidence) == (None, None, 0.0)
    assert verdict.reason.startswith("flat: from lr 1e-06 to 0.01 the loss stays at 2 (the lowest is 2); use a larger high=")


def test_diverging_at_once() -> None:
    wild = curve([3.0, 5.0, 9.0], first=1.0)
    assert judge(wild, [wild]).suggestion is None
    assert judge(wild, [wild]).reason == "it diverges at once: the loss has risen at lr 1 already; use a smaller low= than 1."


def noisy(seed: int, spread: float) -> Curve:
    draw = random.Random(seed)
    losses = [2.0 + draw.gauss(0, spread) for _ in range(109)]
    return Curve(tuple(losses[:9]), tuple(1e-7 * 1.2**i for i in range(100)), tuple(losses[9:]), 0.6)


def test_noise() -> None:
    sweeps = [noisy(0, 2.0), noisy(1, 2.0)]
    verdict = judge(merged(sweeps), sweeps)
    assert verdict.suggestion is None
    assert verdict.reason.startswith("noise: the loss varies by ±")
    assert "use larger batches, or more steps=" in verdict.reason
    calm = [noisy(0, 0.05), noisy(1, 0.05)]
    assert judge(merged(calm), calm).reason.startswith("flat:")


def test_repeats_that_contradict_each_other_are_noise() -> None:
    other = Curve(TYPICAL.before, tuple(lr * 100 for lr in TYPICAL.lrs), TYPICAL.losses, 0.0)
    verdict = judge(TYPICAL, [TYPICAL, other])
    assert verdict.suggestion is None
    assert verdict.reason == (
        "noise: on other batches the same test gives anything from 0.067 to 6.7; use larger batches, or more steps=."
    )


def test_a_rise_that_only_one_repeat_shows_is_noise() -> None:
    rises, flat = curve([2.0] * 6 + [5.0]), curve([2.0] * 7)
    both = merged([rises, flat])
    assert both.risen == 6
    assert judge(both, [rises, flat]).reason.startswith("noise: the loss does not fall, and only sometimes rises at the end; use")


def test_spread_is_in_decades() -> None:
    assert spread([0.1, None, 10.0]) == pytest.approx(2.0)
    assert spread([0.1, None]) is None
