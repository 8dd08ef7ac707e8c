"""Doubling, bisecting, and telling an error that says "too large" from one that does not."""

from collections.abc import Generator

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from instep.data.device import is_out_of_memory
from instep.records import StepResult
from instep.tuning.trying import Tried, fits, largest_fitting


def test_doubled_until_it_fails_then_bisected() -> None:
    tried = largest_fitting(lambda samples: samples <= 100, least=2, most=10_000)
    assert [(one.samples, one.fits) for one in tried] == [
        (2, True), (4, True), (8, True), (16, True), (32, True), (64, True), (128, False),
        (96, True), (112, False), (104, False), (100, True), (102, False),
    ]  # fmt: skip


def test_nothing_above_the_most_is_tried() -> None:
    tried = largest_fitting(lambda samples: True, least=2, most=100)
    assert [one.samples for one in tried] == [2, 4, 8, 16, 32, 64, 100]


def test_where_the_least_fails_nothing_fits() -> None:
    assert largest_fitting(lambda samples: False, least=2, most=100) == [Tried(2, False)]


@given(limit=st.integers(1, 5000), most=st.integers(1, 5000))
def test_the_answer_is_within_three_hundredths(limit: int, most: int) -> None:
    tried = largest_fitting(lambda samples: samples <= limit, least=1, most=most)
    best = max(one.samples for one in tried if one.fits)
    truth = min(limit, most)
    assert best <= truth <= best + max(1, 0.03 * best)
    assert len(tried) <= 2 * most.bit_length() + 2
    assert len({one.samples for one in tried}) == len(tried)


@pytest.mark.parametrize(
    ("error", "is_one"),
    [
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB"), True),
        (MemoryError(), True),
        (RuntimeError("MPS backend out of memory (MPS allocated: 5 GB)"), True),
        (RuntimeError("[enforce fail at alloc_cpu.cpp:117] DefaultCPUAllocator: can't allocate memory"), True),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate"), True),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), False),
        (ValueError("out of memory"), False),
    ],
)
def test_what_says_that_memory_does_not_suffice(error: Exception, is_one: bool) -> None:
    assert is_out_of_memory(error) == is_one


def updates(*outcomes: Exception | None) -> Generator[StepResult, None, None]:
    for outcome in outcomes:
        if outcome is not None:
            raise outcome
        yield StepResult(torch.tensor(1.0), 1, None, True)


def test_two_updates_have_to_go_through() -> None:
    """The second one has the optimizer's state beside the gradients."""
    cpu = torch.device("cpu")
    assert fits(lambda: updates(None, None), cpu)
    assert not fits(lambda: updates(torch.OutOfMemoryError("x")), cpu)
    assert not fits(lambda: updates(None, torch.OutOfMemoryError("x")), cpu)
    with pytest.raises(RuntimeError, match="shapes"):
        fits(lambda: updates(RuntimeError("shapes")), cpu)
    with pytest.raises(KeyError):
        fits(lambda: updates(KeyError("x")), cpu)
