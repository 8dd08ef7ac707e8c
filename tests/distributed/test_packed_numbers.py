"""What processes tell each other beside their gradients is exact, in the dtype of the gradients."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from instep.distributed.packed_numbers import dtype_for, pack, pack_floats, packed_length, unpack, unpack_floats

COUNTS = st.integers(0, 2**32)


def exchanged(values: list[list[float]], dtype: torch.dtype) -> list[float]:
    """What every process has of all of them: DistributedDataParallel multiplies by 1/processes, then adds up."""
    processes = len(values)
    sent = [pack(torch.tensor(own, dtype=torch.float64), dtype) * processes for own in values]
    assert {tensor.dtype for tensor in sent} == {dtype}
    total = sent[0] * (1 / processes)
    for tensor in sent[1:]:
        total = total + tensor * (1 / processes)
    summed: list[float] = unpack(total, processes).tolist()
    return summed


def added_up(values: list[list[float]], dtype: torch.dtype) -> list[float]:
    """The same of one message, which is only added up."""
    total = torch.stack([torch.tensor(pack_floats(own, dtype), dtype=dtype) for own in values]).sum(0)
    return unpack_floats(total.tolist(), dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@given(values=st.lists(st.tuples(COUNTS, COUNTS), min_size=1, max_size=7))
def test_counts_are_exact(dtype: torch.dtype, values: list[tuple[int, int]]) -> None:
    for way in (exchanged, added_up):
        sums = way([list(map(float, own)) for own in values], dtype)
        assert sums == [sum(own[0] for own in values), sum(own[1] for own in values)]


@given(values=st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=7))
def test_losses_keep_the_precision_of_the_gradients(values: list[float]) -> None:
    size = sum(abs(value) for value in values)
    for way in (exchanged, added_up):
        assert way([[value] for value in values], torch.float32)[0] == pytest.approx(sum(values), abs=1e-6 * size + 1e-12)


def test_what_is_not_finite_stays_so() -> None:
    for way in (exchanged, added_up):
        for value in ("nan", "inf", "-inf"):
            assert not torch.isfinite(torch.tensor(way([[float(value)], [1.0]], torch.float32))).any()


@given(values=st.lists(st.floats(-1e12, 1e12), min_size=1))
def test_the_host_packs_as_tensors_do(values: list[float]) -> None:
    tensor = torch.tensor(values, dtype=torch.float64)
    for dtype in (torch.float32, torch.float64):
        assert torch.equal(torch.tensor(pack_floats(values, dtype), dtype=dtype), pack(tensor, dtype))


def test_numbers_go_with_the_gradients_of_one_dtype() -> None:
    single, double = torch.zeros(1), torch.zeros(1, dtype=torch.float64)
    assert dtype_for([single, single]) is torch.float32
    assert dtype_for([double]) is dtype_for([single, double]) is dtype_for([single.half()]) is torch.float64
    assert [packed_length(6, dtype) for dtype in (torch.float32, torch.float64)] == [12, 6]
