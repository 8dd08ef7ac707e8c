"""What the doctor costs: training steps watched and not watched, in turns, in CPU time.

An MLP whose step takes about 0.75 ms (the worst case: there is least to hide behind) and a small transformer, one thread,
AdamW, clipping and a schedule in the loop. Every watched block stands between unwatched ones of the same run; the table shows
the ratio of the means of the fastest third of each kind, and the median of the ratios of neighbours.

    python benchmarks/doctor.py [--rounds 15] [--profile]
"""

import argparse
import cProfile
import pstats
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from instep.doctor.watcher import Watcher


@dataclass(frozen=True)
class Work:
    """Something to train."""

    name: str
    model: Callable[[], nn.Module]
    batch: Callable[[], tuple[Tensor, Tensor]]
    steps: int  # in a block
    aim: float


class Transformer(nn.Module):
    """Four layers of 128 over 64 tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(256, 128)
        layer = nn.TransformerEncoderLayer(128, 4, 512, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
        self.head = nn.Linear(128, 256)

    def forward(self, tokens: Tensor) -> Tensor:
        scores: Tensor = self.head(self.layers(self.embedding(tokens)))
        return scores.transpose(1, 2)


WORKS = [
    Work(
        "MLP 16-32-2, batch 64",
        lambda: nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 2)),
        lambda: (torch.randn(64, 16), torch.randint(2, (64,))),
        steps=1000,
        aim=1.07,
    ),
    Work(
        "transformer 4 × 128, 8 × 64 tokens",
        Transformer,
        lambda: (torch.randint(256, (8, 64)), torch.randint(256, (8, 64))),
        steps=20,
        aim=1.02,
    ),
]


def training(work: Work) -> Iterator[None]:
    """One step each time it is asked."""
    torch.manual_seed(0)
    model = work.model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0)
    x, y = work.batch()
    criterion = nn.CrossEntropyLoss()
    while True:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        yield


def block(work: Work, *, watched: bool) -> float:
    """Seconds of CPU time of a step."""
    with Watcher() if watched else nullcontext():
        steps = training(work)
        for _ in range(max(work.steps // 4, 30)):  # the first steps are looked at more closely; that is over soon
            next(steps)
        begun = time.process_time()
        for _ in range(work.steps):
            next(steps)
        return (time.process_time() - begun) / work.steps


def measure(work: Work, rounds: int) -> tuple[float, float, float]:
    """Milliseconds of an unwatched step, ratio of the fastest thirds, median ratio of neighbours."""
    plain, watched = [block(work, watched=False)], []
    for _ in range(rounds):
        watched.append(block(work, watched=True))
        plain.append(block(work, watched=False))
    third = max(rounds // 3, 1)
    fastest = [statistics.mean(sorted(times)[:third]) for times in (watched, plain)]
    neighbours = [2 * w / (before + after) for w, before, after in zip(watched, plain, plain[1:], strict=False)]
    return fastest[1] * 1e3, fastest[0] / fastest[1], statistics.median(neighbours)


def profile(work: Work) -> None:
    """Where the doctor's own time goes."""
    profiler = cProfile.Profile()
    with Watcher():
        steps = training(work)
        for _ in range(100):
            next(steps)
        profiler.enable()
        for _ in range(work.steps):
            next(steps)
        profiler.disable()
    pstats.Stats(profiler).sort_stats("tottime").print_stats("instep", 25)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--profile", action="store_true")
    given = parser.parse_args()
    torch.set_num_threads(1)
    if given.profile:
        profile(WORKS[0])
        return
    print(f"{'':<38}{'ms a step':>10}{'ratio':>8}{'neighbours':>12}{'aim':>7}")
    for work in WORKS:
        ms, ratio, neighbours = measure(work, given.rounds)
        print(f"{work.name:<38}{ms:>10.3f}{ratio:>8.3f}{neighbours:>12.3f}{work.aim:>7.2f}")


if __name__ == "__main__":
    main()
