"""Thinning keeps what one would see."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from instep.report.page.thinning import Point, thinned

values = st.one_of(st.none(), st.floats(width=32))


@given(st.lists(values, max_size=400), st.integers(4, 100))
def test_the_ends_and_the_extremes_stay(given_values: list[float | None], most: int) -> None:
    points = [Point(step, value) for step, value in enumerate(given_values)]
    kept = thinned(points, most)
    assert len(kept) <= 3 * (most // 2) + 2
    assert [p.step for p in kept] == sorted({p.step for p in kept})
    assert {id(p) for p in kept} <= {id(p) for p in points}
    if points:
        assert (kept[0], kept[-1]) == (points[0], points[-1])
    finite = [p.value for p in points if p.value is not None and math.isfinite(p.value)]
    if finite:
        shown = [p.value for p in kept if p.value is not None and math.isfinite(p.value)]
        assert (min(shown), max(shown)) == (min(finite), max(finite))


def test_a_short_curve_stays_whole() -> None:
    points = [Point(step, 1.0) for step in range(10)]
    assert thinned(points, 10) == points


@pytest.mark.parametrize("spike", [1e6, -1e6, math.nan, math.inf])
def test_one_spike_among_many_stays(spike: float) -> None:
    points = [Point(step, math.sin(step)) for step in range(100_000)]
    points[54_321] = Point(54_321, spike)
    kept = thinned(points, 2_000)
    assert len(kept) < 2_100
    assert points[54_321] in kept


def test_steps_that_matter_stay() -> None:
    points = [Point(step, float(step % 7)) for step in range(1000)]
    assert 503 in [point.step for point in thinned(points, 20, keep={503})]
