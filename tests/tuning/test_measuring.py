"""Extrapolating footprints, on numbers that can be worked out."""

import pytest

from instep.tuning.footprint import Footprint
from instep.tuning.measuring import extrapolated


def footprints(*points: tuple[int, int], saved: int = 0) -> list[Footprint]:
    return [Footprint(samples, 0, 0, 0, saved * samples, peak) for samples, peak in points]


def test_what_grows_in_proportion_goes_on_so() -> None:
    found = footprints((2, 120), (4, 140), (8, 180))
    assert extrapolated(found, 100) == pytest.approx(100 + 10 * 100)
    assert extrapolated(found, 8) == 180


def test_what_grows_with_the_square_is_seen_by_three_points() -> None:
    """A loss over all pairs of a batch."""
    found = footprints(*((n, 5 + 3 * n + 2 * n * n) for n in (4, 8, 16)))
    assert extrapolated(found, 100) == pytest.approx(5 + 300 + 20_000)


def test_a_peak_that_is_the_optimizers_own_is_not_taken_for_all_there_will_be() -> None:
    """Small batches: the peak is in the optimizer's step. What is saved for backward overtakes it."""
    found = footprints((2, 1000), (4, 1000), (8, 1000), saved=10)
    assert extrapolated(found, 50) == 1000
    assert extrapolated(found, 500) == 5000


def test_memory_never_falls_with_more_samples() -> None:
    assert extrapolated(footprints((2, 120), (4, 110), (8, 100)), 100) == 100
    assert extrapolated(footprints((2, 120)), 4) == 240
    assert extrapolated(footprints((2, 120), (4, 140)), 6) == 160
