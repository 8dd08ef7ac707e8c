"""What loading costs: python benchmarks/loading.py [--rounds 5] (about a minute).

The aims: tensors in memory at least 5 × the batches of DataLoader(TensorDataset); a data set with 200 µs of Python work a sample
at least 0.97 × DataLoader with the same number of workers; the keys of a sample at most 20 µs; any batch of 10^9 samples at
once. Both sides of a ratio take turns, so that a slow moment of the machine hits both; one torch thread.
"""

import argparse
import functools
import random
import statistics
import time
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, TensorDataset

from instep.data.loader import Loader
from instep.data.source import as_source

BATCH, FEATURES = 64, 784
CPU = torch.device("cpu")


class Working(Dataset[tuple[Tensor, int]]):
    """So much Python work a sample: a loop that was timed once, so that both sides do the same amount of it."""

    def __init__(self, samples: int, work_s: float) -> None:
        self.samples = samples
        self.x = torch.randn(FEATURES)
        self.turns = round(work_s / _seconds_a_turn()) if work_s else 0

    def __len__(self) -> int:
        return self.samples

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        _turn(self.turns)
        return self.x, index % 10


class Augmented(Working):
    """Draws from each of the three generators."""

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return self.x * torch.rand(()) + random.random() + np.random.rand(), index % 10


class Endless(Dataset[Tensor]):
    """10^9 samples that are computed."""

    def __len__(self) -> int:
        return 10**9

    def __getitem__(self, index: int) -> Tensor:
        return torch.tensor(float(index))


def _turn(turns: int) -> int:
    total = 0
    for turn in range(turns):
        total += turn * turn % 7
    return total


def _seconds_a_turn() -> float:
    return min(_timed(lambda: _turn(20_000)) for _ in range(20)) / 20_000


def _timed(call: Callable[[], object]) -> float:
    begun = time.perf_counter()
    call()
    return time.perf_counter() - begun


def read(batches: Iterable[Any]) -> float:
    """Seconds a batch."""
    count = 0
    begun = time.perf_counter()
    for _ in batches:
        count += 1
    return (time.perf_counter() - begun) / count


def loader(data: Any, workers: int = 0, epochs: int = 0) -> Loader:
    return Loader(as_source(data, "train"), batch_size=BATCH, seed=0, device=CPU, shuffle=True, workers=workers, epochs=epochs)


def plain(data: Dataset[Any], workers: int = 0) -> "DataLoader[Any]":
    return DataLoader(data, batch_size=BATCH, shuffle=True, num_workers=workers, persistent_workers=workers > 0)


def side_by_side(title: str, ours: Loader, theirs: "DataLoader[Any]", rounds: int, aim: str) -> None:
    """Epochs in turns; the first of each warms up, and starts the workers."""
    times: list[tuple[float, float]] = []
    for epoch in range(rounds + 1):
        pair = read(ours.batches(epoch)), read(theirs)
        if epoch:
            times.append(pair)
    ours.close()
    mine, plain_s = (statistics.median(column) for column in zip(*times, strict=True))
    ratio = statistics.median(theirs_s / ours_s for ours_s, theirs_s in times)
    print(f"{title:<48}{mine * 1e6:>10,.0f} µs{plain_s * 1e6:>12,.0f} µs{ratio:>9.3f} ×   {aim}")


def keys_cost(rounds: int) -> None:
    """The same data set, once through a source and once by hand without keys."""
    data = Augmented(6400, 0)
    ours = loader(data)
    keyed, bare = [], []
    for epoch in range(rounds):
        keyed.append(read(ours.batches(epoch)) / BATCH)
        bare.append(read(plain(data)) / BATCH)
    extra = statistics.median(keyed) - statistics.median(bare)
    print(f"{'keyed augmentation, against none, a sample':<48}{extra * 1e6:>10.1f} µs{'':>27}at most 20 µs")


def start_anywhere() -> None:
    for title, epoch, start in (
        ("first batch of 10^9 samples", 0, 0),
        ("a batch in the middle of epoch 7", 7, 10**9 // BATCH // 2),
    ):
        fresh = loader(Endless())
        batches = fresh.batches(epoch, start)
        seconds = _timed(functools.partial(next, batches))
        print(f"{title:<48}{seconds * 1e6:>10,.0f} µs")


def main() -> None:
    parser = argparse.ArgumentParser(description="What loading costs beside torch's DataLoader.")
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    torch.set_num_threads(1)
    print(f"{'batches of 64, seconds a batch':<48}{'Instep':>13}{'DataLoader':>15}{'ratio':>11}")
    x, y = torch.randn(12_800, FEATURES), torch.randint(10, (12_800,))
    side_by_side("tensors in memory", loader((x, y)), plain(TensorDataset(x, y)), 3 * rounds, "at least 5 ×")
    working = Working(6400, 200e-6)
    for workers in (0, 1, 2):
        title = f"200 µs of Python a sample, {workers} workers"
        side_by_side(title, loader(working, workers, rounds + 1), plain(working, workers), rounds, "at least 0.97 ×")
    keys_cost(rounds)
    start_anywhere()


if __name__ == "__main__":
    main()
