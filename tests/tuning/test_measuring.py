"""The search for the largest size within a budget, against memory that grows in known ways."""

import math
from collections.abc import Callable
from itertools import pairwise

import pytest

from instep.errors import InstepError
from instep.tuning import resident
from instep.tuning.measuring import largest_within
from tuning.toyrun import ToyRun

MB = 10**6


@pytest.mark.parametrize(
    ("peak_of", "budget", "real"),
    [
        (lambda n: 100 * MB + 3 * MB * n, 1000 * MB, 300),
        (lambda n: 900 * MB + MB * n, 1000 * MB, 100),  # nearly all of it is there from the beginning
        (lambda n: 100 * MB + MB * n * n // 10, 1000 * MB, 94),  # grows with the square
        (lambda n: 100 * MB + 8 * MB * (n // 8), 1000 * MB, 903),  # in steps, as a heap does
        (lambda n: 100 * MB + (0 if n < 40 else 3 * MB * (n - 40)), 1000 * MB, 340),  # nothing is seen of small sizes
    ],
    ids=["proportion", "constant", "square", "steps", "late"],
)
def test_the_budget_is_used_and_never_exceeded(peak_of: Callable[[int], int], budget: int, real: int) -> None:
    tried = largest_within(budget, peak_of, least=2, most=10_000)
    assert all(one.fits and (one.peak_bytes or 0) <= budget for one in tried)
    assert 0.9 * real <= tried[-1].samples <= real
    assert len(tried) <= 2 * math.log2(real)
    sizes = [one.samples for one in tried]
    assert all(later <= 2 * size for size, later in pairwise(sizes))


def test_all_there_is_fits() -> None:
    assert [one.samples for one in largest_within(1e12, lambda n: n * MB, least=2, most=100)] == [2, 4, 8, 16, 32, 64, 100]
    assert [one.samples for one in largest_within(1e12, lambda n: n * MB, least=1, most=1)] == [1]


def test_not_even_the_smallest_fits() -> None:
    (only,) = largest_within(10 * MB, lambda n: 20 * MB, least=2, most=100)
    assert (only.samples, only.fits, only.peak_bytes) == (2, False, 20 * MB)


def test_a_system_that_does_not_tell_what_a_process_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    from instep.tuning.batch_size import find_batch_size
    from tuning.test_batch_size import wide_run

    monkeypatch.setattr(resident, "peak_bytes", lambda: None)
    run: ToyRun = wide_run(4)
    with pytest.raises(InstepError, match='how much memory this process holds cannot be told on this system; use how="trying"'):
        find_batch_size(run, memory_bytes=1e9, paces=False)
