"""What loading costs: python benchmarks/loading.py [--rounds 5] (about a minute).

The aims: tensors in memory at least 5 × the batches of DataLoader(TensorDataset); a data set with 200 µs of Python work a sample
at least 0.97 × DataLoader with the same number of workers; the keys of a sample at most 20 µs; any batch of 10^9 samples at
once. Both sides of a ratio take turns, so that a slow moment of the machine hits both; one torch thread. Beside the time by the
clock stands the ratio of processor time, of this process and its workers, which others on the machine disturb less.
"""

import argparse
import functools
import math
import multiprocessing
import os
import random
import statistics
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, TensorDataset

from instep.data.loading.loader import Loader
from instep.data.sources.recognize import as_source

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
    return min(_timed(lambda: _turn(2_000)) for _ in range(2_000)) / 2_000


def _timed(call: Callable[[], object]) -> float:
    begun = time.perf_counter()
    call()
    return time.perf_counter() - begun


class Cost(NamedTuple):
    """Of a batch, in seconds."""

    clock: float
    processor: float


def read(batches: Iterable[Any]) -> Cost:
    count = 0
    begun = time.perf_counter(), processor_s()
    for _ in batches:
        count += 1
    return Cost((time.perf_counter() - begun[0]) / count, (processor_s() - begun[1]) / count)


def processor_s() -> float:
    """Used so far by this process and its children; 0 where nobody says so."""
    processes = [os.getpid(), *(process.pid for process in multiprocessing.active_children())]
    try:
        return sum(int(Path(f"/proc/{process}/schedstat").read_text().split()[0]) for process in processes) / 1e9
    except OSError:
        return 0.0


def loader(data: Any, workers: int = 0, epochs: int = 0) -> Loader:
    return Loader(as_source(data, "train"), batch_size=BATCH, seed=0, device=CPU, shuffle=True, workers=workers, epochs=epochs)


def plain(data: Dataset[Any], workers: int = 0) -> "DataLoader[Any]":
    return DataLoader(data, batch_size=BATCH, shuffle=True, num_workers=workers, persistent_workers=workers > 0)


def side_by_side(title: str, ours: Loader, theirs: "DataLoader[Any]", rounds: int, aim: str) -> None:
    """Epochs in turns; the first of each warms up, and starts the workers."""
    times: list[tuple[Cost, Cost]] = []
    for epoch in range(rounds + 1):
        pair = read(ours.batches(epoch)), read(theirs)
        if epoch:
            times.append(pair)
    ours.close()
    mine, plain_s = (statistics.median(cost.clock for cost in column) for column in zip(*times, strict=True))
    ratio = statistics.median(other.clock / own.clock for own, other in times)
    work = statistics.median(other.processor / own.processor if own.processor else math.nan for own, other in times)
    print(f"{title:<44}{mine * 1e6:>9,.0f} µs{plain_s * 1e6:>12,.0f} µs{ratio:>9.2f} ×{work:>10.3f} ×   {aim}")


def keys_cost(rounds: int) -> None:
    """The same data set, once through a source and once by hand without keys."""
    data = Augmented(6400, 0)
    ours = loader(data)
    keyed, bare = [], []
    for epoch in range(rounds):
        keyed.append(read(ours.batches(epoch)).processor / BATCH)
        bare.append(read(plain(data)).processor / BATCH)
    extra = statistics.median(keyed) - statistics.median(bare)
    print(f"{'keys of a sample that draws':<44}{extra * 1e6:>9.1f} µs{'':>41}at most 20 µs")


def start_anywhere() -> None:
    for title, epoch, start in (
        ("first batch of 10^9 samples", 0, 0),
        ("a batch in the middle of epoch 7", 7, 10**9 // BATCH // 2),
    ):
        fresh = loader(Endless())
        batches = fresh.batches(epoch, start)
        seconds = _timed(functools.partial(next, batches))
        print(f"{title:<44}{seconds * 1e6:>9,.0f} µs")


def main() -> None:
    parser = argparse.ArgumentParser(description="What loading costs beside torch's DataLoader.")
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    torch.set_num_threads(1)
    print(f"{'a batch of 64':<44}{'Instep':>12}{'DataLoader':>15}{'clock':>11}{'processor':>12}")
    x, y = torch.randn(12_800, FEATURES), torch.randint(10, (12_800,))
    side_by_side("tensors in memory", loader((x, y)), plain(TensorDataset(x, y)), 3 * rounds, "at least 5 ×")
    working = Working(3200, 200e-6)
    for workers in (0, 1, 2):
        title = f"200 µs of Python a sample, {workers} workers"
        side_by_side(title, loader(working, workers, 2 * rounds + 1), plain(working, workers), 2 * rounds, "at least 0.97 ×")
    keys_cost(rounds)
    start_anywhere()


if __name__ == "__main__":
    main()
