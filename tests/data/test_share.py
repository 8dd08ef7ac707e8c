"""Shares: for any number of processes each sample is taken exactly once, and what it costs is a process's own part."""

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from instep.data.order import Order
from instep.data.share import Dealt, Part, start_of

sizes = st.integers(1, 10**9)
worlds = st.integers(1, 4096)


@given(n=st.integers(1, 3000), processes=st.integers(1, 70), cycle=st.integers(1, 9))
def test_the_pieces_are_those_of_tensor_split(n: int, processes: int, cycle: int) -> None:
    spans = [span for rank in range(processes) for span in Part(rank, processes, cycle).spans(n)]
    expected = [(int(piece[0]), int(piece[-1]) + 1) for piece in torch.arange(n).tensor_split(min(processes * cycle, n))]
    assert spans == expected


@given(n=sizes, processes=worlds, cycle=st.integers(1, 10**6), rank=st.data())
def test_at_any_scale_neighbours_meet(n: int, processes: int, cycle: int, rank: st.DataObject) -> None:
    """Each part begins where the one before it ends, the first at 0, the last at n: every sample once."""
    here = rank.draw(st.integers(0, processes - 1))
    first, last = Part(here, processes, cycle).part(0, n)
    assert 0 <= first <= last <= n
    assert first == (0 if here == 0 else Part(here - 1, processes, cycle).part(0, n)[1])
    assert here < processes - 1 or last == n
    assert last - first <= -(-n // processes) * 2


@settings(max_examples=15, deadline=None)
@given(samples=st.integers(1, 10**9), processes=worlds, batch=st.integers(1, 5000), cycle=st.integers(1, 8), data=st.data())
def test_every_sample_of_a_batch_once_an_epoch(samples: int, processes: int, batch: int, cycle: int, data: st.DataObject) -> None:
    """The places of one batch of up to 10^9 samples, dealt to up to 4,096 ranks: each once, in the order of one process."""
    index = data.draw(st.integers(0, (samples - 1) // batch))
    begin, n = index * batch, min(batch, samples - index * batch)
    parts = [Part(rank, processes, cycle).part(index, n) for rank in range(processes)]
    assert list(itertools.chain.from_iterable(range(*part) for part in parts)) == list(range(n))
    order = Order(samples, seed=3, epoch=1)
    rank = data.draw(st.integers(0, processes - 1))
    first, last = parts[rank]
    if first < last:
        own = order.slice(begin + first, begin + last)
        assert own.tolist() == order.slice(begin, begin + n)[first:last].tolist()


@given(n=sizes, processes=worlds, micro=st.integers(1, 10**6))
def test_micro_batches_are_small_enough_and_as_many_for_each(n: int, processes: int, micro: int) -> None:
    part = Part(0, processes, 1, micro)
    count = part.pieces(n)
    assert -(-n // count) <= micro
    assert count % processes == 0 or count == n


@pytest.mark.parametrize(("batches", "processes"), [(1, 3), (7, 3), (9, 2)])
def test_evaluations_deal_whole_batches(batches: int, processes: int) -> None:
    for index in range(batches):
        parts = [Dealt(rank, processes).part(index, 5) for rank in range(processes)]
        assert sorted(parts) == [(0, 0)] * (processes - 1) + [(0, 5)]


def test_nothing_is_cut_into_nothing() -> None:
    assert start_of(0, 0, 0) == 0
    assert Part(1, 2).spans(1) == []
    assert Part(3, 4).part(0, 2) == (2, 2)
