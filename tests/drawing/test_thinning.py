"""Thinning keeps what one would see."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from instep.drawing.thinning import thinned


@given(st.lists(st.one_of(st.none(), st.floats(width=32)), max_size=400), st.integers(4, 100))
def test_the_ends_and_the_extremes_stay(values: list[float | None], most: int) -> None:
    kept = thinned(values, most)
    assert len(kept) <= max(most, 3 * (most // 2) + 2)
    assert kept == sorted(set(kept))
    if values:
        assert (kept[0], kept[-1]) == (0, len(values) - 1)
    finite, shown = (
        [value for value in some if value is not None and math.isfinite(value)]
        for some in (values, [values[place] for place in kept])
    )
    if finite:
        assert (min(shown), max(shown)) == (min(finite), max(finite))


def test_a_short_curve_stays_whole() -> None:
    assert thinned([1.0] * 10, 10) == list(range(10))


@pytest.mark.parametrize("spike", [1e6, -1e6, math.nan, math.inf])
def test_one_spike_among_many_stays(spike: float) -> None:
    values: list[float | None] = [math.sin(step) for step in range(100_000)]
    values[54_321] = spike
    kept = thinned(values, 2_000)
    assert len(kept) < 2_100
    assert 54_321 in kept


def test_places_that_matter_stay() -> None:
    assert 503 in thinned([float(step % 7) for step in range(1000)], 20, keep=[503])
