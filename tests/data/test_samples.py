"""Samples one by one: their keys, their transforms, their errors."""

import os
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from feeds import Noisy, Squares, assert_equal
from instep import keys
from instep.data.position import Position
from instep.data.sources.recognize import Reading, as_source
from instep.data.sources.samples import Samples, has_own_batched_fetch
from instep.errors import DataError

AT = Position(seed=0, epoch=0, place=0)


def fetch(data: Any, *indices: int, **reading: Any) -> Any:
    return as_source(data, "train", Reading(**reading)).fetch(torch.tensor(indices), AT)


# --- Keys


def test_a_sample_is_loaded_under_the_key_of_its_place() -> None:
    """Wherever a batch begins, the sample at a place has the same draws; another epoch or place has others."""
    source = as_source(Noisy(8), "train")
    before = torch.random.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist()  # type: ignore[index]
    whole = source.fetch(torch.arange(8), Position(0, 3, 0))
    part = source.fetch(torch.arange(4, 8), Position(0, 3, 4))
    other = source.fetch(torch.arange(8), Position(0, 4, 0))
    after = torch.random.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist()  # type: ignore[index]
    assert torch.equal(after[0], before[0])
    assert after[1:] == before[1:]
    for column, tail, elsewhere in zip(whole[:3], part, other, strict=False):
        assert torch.equal(column[4:], tail)
        assert not torch.equal(column, elsewhere)
        assert len({str(entry) for entry in column.tolist()}) == 8


class Sometimes(Squares):
    """Draws from Python's generator only for some samples."""

    def __init__(self, which: set[int]) -> None:
        super().__init__(64)
        self.which = which
        self.loaded: list[int] = []

    def __getitem__(self, index: int) -> Any:
        self.loaded.append(index)
        drawn = random.random() if index in self.which else 0.0
        return drawn, np.random.rand(), torch.rand(())


@pytest.mark.parametrize("which", [set(), {0}, {3}, {17}, {17, 18, 40}, set(range(64))], ids=str)
def test_pythons_generator_is_keyed_whenever_it_is_drawn_from(which: set[int]) -> None:
    data = Sometimes(which)
    source = as_source(data, "train")
    found = [source.fetch(torch.arange(first, first + 8), Position(0, 1, first)) for first in range(0, 64, 8)]
    assert data.loaded == list(range(64))  # each once
    for index in range(64):
        with keys.fork_rng():
            keys.seed_all(keys.for_sample(0, 1, index))
            expected = data[index]
        got = [column[index % 8] for column in found[index // 8]]
        assert [float(value) for value in got] == [float(value) for value in expected]


def test_an_error_after_a_draw_is_that_of_the_keyed_sample() -> None:
    class Unlucky(Sometimes):
        def __getitem__(self, index: int) -> Any:
            drawn = super().__getitem__(index)
            if index == 17:
                raise ValueError(f"drew {drawn[0]}")
            return drawn

    with keys.fork_rng():
        keys.seed_all(keys.for_sample(0, 0, 9))
        expected = random.random()
    source = as_source(Unlucky({17}), "train")
    source.fetch(torch.arange(8), AT)
    with pytest.raises(DataError, match=f"sample 17 of train cannot be loaded: ValueError: drew {expected}"):
        source.fetch(torch.arange(8, 24), AT)


def test_collating_is_keyed_by_the_batch() -> None:
    def collate(samples: list[Any]) -> Tensor:
        return torch.rand(len(samples))

    first, again = (fetch(Squares(), 0, 1, collate=collate) for _ in range(2))
    assert torch.equal(first, again)
    with keys.fork_rng():
        keys.seed_all(keys.for_batch(0, 0, 0))
        assert torch.equal(first, torch.rand(2))


def test_loading_uses_one_thread_and_gives_them_back() -> None:
    seen: list[int] = []

    class Watching(Squares):
        def __getitem__(self, index: int) -> tuple[int, int]:
            seen.append(torch.get_num_threads())
            return super().__getitem__(index)

    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        fetch(Watching(), 0)
        assert (seen, torch.get_num_threads()) == ([1], 2)
    finally:
        torch.set_num_threads(threads)


# --- Transforms, and all samples of a batch at once


def test_a_transform_changes_each_sample_under_its_key() -> None:
    source = as_source(Squares(), "train").transformed(lambda sample: (sample[0], random.random()))
    drawn = source.fetch(torch.tensor([4, 4]), AT)
    assert drawn[0].tolist() == [4, 4]
    assert drawn[1][0] != drawn[1][1]  # a sample drawn twice gets two augmentations
    assert_equal(source.fetch(torch.tensor([4, 4]), AT), drawn)


def test_a_transform_of_columns_may_work_in_place() -> None:
    x = torch.zeros(5, 2)
    source = as_source((x, torch.arange(5)), "train").transformed(lambda sample: (sample[0].add_(sample[1]), sample[1]))
    assert source.fetch(torch.tensor([3, 1]), AT)[0].tolist() == [[3, 3], [1, 1]]
    assert x.sum() == 0
    named = as_source({"x": x, "name": list("abcde")}, "train").transformed(lambda sample: sample["name"] * 2)
    assert named.fetch(torch.tensor([3, 1]), AT) == ["dd", "bb"]


class AtOnce(Squares):
    def __getitems__(self, indices: list[int]) -> list[Any]:
        return [(index, -1) for index in indices]


class Inherited(AtOnce):
    """Its parent's __getitems__ knows nothing of this __getitem__."""

    def __getitem__(self, index: int) -> tuple[int, int]:
        return index, 100


class Delegating:
    """Has what its inner data set has, as attributes."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __len__(self) -> int:
        return len(self.inner)

    def __getitem__(self, index: int) -> tuple[int, int]:
        return index, 200

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


def test_all_at_once_only_where_that_is_the_data_sets_own() -> None:
    assert fetch(AtOnce(), 3, 4)[1].tolist() == [-1, -1]
    assert fetch(Inherited(), 3, 4)[1].tolist() == [100, 100]
    assert fetch(Delegating(AtOnce()), 3, 4)[1].tolist() == [200, 200]
    assert [has_own_batched_fetch(data) for data in (AtOnce(), Inherited(), Squares(), [1])] == [True, False, False, False]


def test_all_at_once_with_a_transform_only_for_rows_of_columns() -> None:
    def double(sample: Any) -> Any:
        return sample[0], 2 * sample[1], random.random()

    alone = as_source(AtOnce(), "train").transformed(double).fetch(torch.tensor([3, 4]), AT)
    at_once = Samples(AtOnce(), "train", batched_fetch=True).transformed(double).fetch(torch.tensor([3, 4]), AT)
    assert (alone[1].tolist(), at_once[1].tolist()) == ([18, 32], [-2, -2])
    assert torch.equal(alone[2], at_once[2])


def test_too_few_at_once() -> None:
    class Forgetful(AtOnce):
        def __getitems__(self, indices: list[int]) -> list[Any]:
            return super().__getitems__(indices[1:])

    with pytest.raises(DataError, match="__getitems__ of train gave 1 sample for 2 indices"):
        fetch(Forgetful(), 3, 4)


# --- Errors


def line_of(text: str) -> int:
    return next(number for number, line in enumerate(Path(__file__).read_text().splitlines(), 1) if line.strip() == text)


class Broken(Squares):
    def __getitem__(self, index: int) -> tuple[int, int]:
        if index == 7:
            raise KeyError("label")
        return super().__getitem__(index)


def test_an_error_while_loading_names_the_sample_and_the_users_line() -> None:
    line = line_of('raise KeyError("label")')
    where = rf"\({__file__}:{line}, in __getitem__: raise KeyError\(\"label\"\)\)"
    with pytest.raises(DataError, match=f"sample 7 of train cannot be loaded: KeyError: 'label' {where}") as caught:
        fetch(Broken(), 5, 7)
    assert isinstance(caught.value.__cause__, KeyError)


def test_an_error_inside_a_library_names_the_line_that_called_it() -> None:
    def load(sample: Any) -> Any:
        return torch.zeros(2) @ torch.zeros(3)

    line = line_of("return torch.zeros(2) @ torch.zeros(3)")
    with pytest.raises(DataError, match=rf"sample 4 of train cannot be loaded: RuntimeError.*test_samples.py:{line}, in load"):
        as_source(Squares(), "train").transformed(load).fetch(torch.tensor([4]), AT)

    def missing(sample: Any) -> Any:
        return os.stat("/nowhere/at/all")

    columns = as_source((torch.zeros(3), torch.zeros(3)), "train").transformed(missing)
    with pytest.raises(DataError, match="sample 2 of train cannot be loaded: FileNotFoundError"):
        columns.fetch(torch.tensor([2]), AT)


def test_an_index_out_of_range_says_what_the_length_says() -> None:
    class Lying(Squares):
        def __len__(self) -> int:
            return 12

    with pytest.raises(DataError, match=r"sample 11 of train cannot be loaded \(its length says there are 12\): IndexError: 11"):
        fetch(Lying(10), 11)


def test_a_length_that_changes() -> None:
    data = Squares(10)
    source = Samples(data, "train")
    source.check()
    data.samples = 8
    with pytest.raises(DataError, match="train had 10 samples when the run was made, now it has 8; every epoch needs the same"):
        source.check()
