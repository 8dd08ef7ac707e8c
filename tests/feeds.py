"""Data sets that draw from every generator, and batches to compare."""

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset, IterableDataset

from instep.data.loading.loader import Batch, Loader
from instep.data.position import Source
from instep.data.sources.stream import Stream

CPU = torch.device("cpu")


class Squares(Dataset[tuple[int, int]]):
    """(index, index²), without a draw."""

    def __init__(self, samples: int = 10) -> None:
        self.samples = samples

    def __len__(self) -> int:
        return self.samples

    def __getitem__(self, index: int) -> tuple[int, int]:
        if not 0 <= index < self.samples:
            raise IndexError(index)
        return index, index**2


class Noisy(Squares):
    """An augmentation from each of the three generators."""

    def __getitem__(self, index: int) -> Any:
        return torch.randn(3), random.random(), np.random.rand(), index


class Counting(IterableDataset[int]):
    """0, 1, 2, …"""

    def __init__(self, samples: int, length: int | None = None) -> None:
        self.samples = samples
        self.length = length

    def __iter__(self) -> Iterator[Any]:
        yield from range(self.samples)

    def __len__(self) -> int:
        if self.length is None:
            raise TypeError("unknown")
        return self.length


class NoisyStream(Counting):
    def __iter__(self) -> Iterator[Any]:
        for index in range(self.samples):
            yield torch.randn(3), random.random(), np.random.rand(), index


def loader(source: Source | Stream, **options: Any) -> Loader:
    usual: dict[str, Any] = {"batch_size": 4, "seed": 0, "device": CPU, "shuffle": True}
    return Loader(source, **(usual | options))


def read(made: Loader, epochs: range = range(2)) -> list[Batch]:
    """All batches of some epochs; the workers are ended."""
    try:
        return [batch for epoch in epochs for batch in made.batches(epoch)]
    finally:
        made.close()


def assert_same(one: list[Batch], other: list[Batch]) -> None:
    """Bit for bit, with where they stand."""
    assert len(one) == len(other)
    for first, second in zip(one, other, strict=True):
        assert first[1:4] == second[1:4]
        assert torch.equal(first.indices, second.indices)
        assert_equal(first.data, second.data)


def assert_equal(one: Any, other: Any) -> None:
    assert type(one) is type(other)
    if isinstance(one, Tensor):
        assert one.dtype == other.dtype
        assert torch.equal(one, other)
    elif isinstance(one, dict):
        assert list(one) == list(other)
        for name in one:
            assert_equal(one[name], other[name])
    elif isinstance(one, tuple | list):
        assert len(one) == len(other)
        for first, second in zip(one, other, strict=True):
            assert_equal(first, second)
    else:
        assert one == other
