"""Does it pay? Updates and time to a fixed validation accuracy: constant Adam at 1e-3 against a range test and one cycle.

The digits that come with Instep (one hidden layer), and six spirals that touch (three hidden layers). One thread, five seeds,
medians; evaluations are not in the time. A cycle has a length, so there is a row for each of two; the constant runs go on until
they are there, or to their limit. What the range test costs is a column of its own.

    python benchmarks/one_cycle.py [--seeds 5]
"""

import argparse
import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from instep import OneCycle, Trainer, keys
from instep.data import digits

LR = 1e-3


@dataclass(frozen=True)
class Task:
    """Data, a model, and the accuracy to reach."""

    name: str
    data: tuple[Tensor, Tensor]
    model: Callable[[], nn.Module]
    batch_size: int
    target: float
    cycles: tuple[int, ...]  # lengths in epochs
    limit: int  # of the constant run, in epochs
    look_every: int  # updates


@dataclass(frozen=True)
class Reached:
    """How far a run had to go; None where it never got there."""

    updates: int | None
    seconds: float | None
    test_updates: int = 0
    test_seconds: float = 0.0
    max_lr: float | None = None


def spirals() -> tuple[Tensor, Tensor]:
    """6,000 points on six spirals of one and a half turns, blurred until they touch."""
    draw = torch.Generator().manual_seed(0)
    y = torch.arange(6_000) % 6
    radius = torch.rand(6_000, generator=draw).sqrt()
    angle = 2 * math.pi * (1.5 * radius + y / 6)
    x = torch.stack([radius * angle.cos(), radius * angle.sin()], dim=1)
    return 2 * x + 0.06 * torch.randn(6_000, 2, generator=draw), y


def mlp(inputs: int, width: int, depth: int) -> nn.Module:
    hidden = [layer for _ in range(depth - 1) for layer in (nn.Linear(width, width), nn.ReLU())]
    return nn.Sequential(nn.Flatten(), nn.Linear(inputs, width), nn.ReLU(), *hidden, nn.Linear(width, 10))


TASKS = (
    Task("digits", digits(), lambda: mlp(64, 128, 1), 64, 0.97, cycles=(6, 12), limit=60, look_every=5),
    Task("spirals", spirals(), lambda: mlp(2, 64, 3), 64, 0.90, cycles=(8, 16), limit=60, look_every=15),
)


def built(task: Task, seed: int, *, epochs: int, lr: float = LR, schedule: OneCycle | None = None) -> Trainer:
    keys.seed_all(keys.for_build(seed))
    model = task.model()
    return Trainer(
        model,
        loss=cross_entropy,
        optimizer=torch.optim.Adam(model.parameters(), lr=lr, fused=True),
        schedule=schedule,
        train=task.data,
        valid=0.2,
        metrics="accuracy",
        evaluate_every=None,
        epochs=epochs,
        batch_size=task.batch_size,
        seed=seed,
        progress=False,
    )


def trained(task: Task, trainer: Trainer) -> Reached:
    """Train until the target is reached, or to the end."""
    spent, begun = 0.0, time.perf_counter()
    for update in trainer.updates():
        done = update.step + 1
        if done % task.look_every == 0 or done == trainer.total_steps:
            spent += time.perf_counter() - begun
            if trainer.evaluate()["valid/accuracy"] >= task.target:
                return Reached(done, spent)
            begun = time.perf_counter()
    return Reached(None, None)


def constant(task: Task, seed: int) -> Reached:
    return trained(task, built(task, seed, epochs=task.limit))


def found(task: Task, seed: int, epochs: int | None) -> Reached:
    """A range test, then one cycle of so many epochs at what it suggests; None stays there instead, to the limit."""
    begun = time.perf_counter()
    test = built(task, seed, epochs=task.limit).find_lr(momentum=0.85)
    test_seconds = time.perf_counter() - begun
    test_updates = sum(len(sweep.before) + len(sweep.losses) for sweep in test.sweeps)
    if test.suggestion is None:
        return Reached(None, None, test_updates, test_seconds)
    if epochs is None:
        trainer = built(task, seed, epochs=task.limit, lr=test.suggestion)
    else:
        trainer = built(task, seed, epochs=epochs, schedule=OneCycle(max_lr=test.suggestion))
    reached = trained(task, trainer)
    return Reached(reached.updates, reached.seconds, test_updates, test_seconds, test.suggestion)


def row(name: str, runs: list[Reached]) -> str:
    """Medians over the runs that got there, and how many those were."""
    there = [run for run in runs if run.updates is not None and run.seconds is not None]
    updates = f"{statistics.median(run.updates or 0 for run in there):,.0f}" if there else "-"
    seconds = f"{statistics.median(run.seconds or 0.0 for run in there):.2f}" if there else "-"
    tests = f"{statistics.median(run.test_updates for run in runs):.0f}" if runs[0].test_updates else "-"
    test_seconds = f"{statistics.median(run.test_seconds for run in runs):.2f}" if runs[0].test_updates else "-"
    lrs = sorted(run.max_lr for run in runs if run.max_lr is not None)
    rates = f"{lrs[0]:.2g} to {lrs[-1]:.2g}" if lrs else f"{LR:g}"
    cost = f"{tests:>10} | {test_seconds:>6}"
    return f"| {name:<34} | {len(there)} of {len(runs)} | {updates:>7} | {seconds:>7} | {cost} | {rates:>16} |"


def main() -> None:
    parser = argparse.ArgumentParser(description="Whether a range test and one cycle pay.")
    parser.add_argument("--seeds", type=int, default=5)
    seeds = range(parser.parse_args().seeds)
    torch.set_num_threads(1)
    print(f"| {'to the target accuracy':<34} | there  | updates | seconds | range test | s      | {'(max) lr':>16} |")
    print(f"| {'-' * 34} | ------ | ------- | ------- | ---------- | ------ | {'-' * 16} |")
    for task in TASKS:
        aim = f"{task.name}, {task.target:.0%}"
        print(row(f"{aim}: constant, 1e-3", [constant(task, seed) for seed in seeds]), flush=True)
        print(row(f"{aim}: constant, as found", [found(task, seed, None) for seed in seeds]), flush=True)
        for epochs in task.cycles:
            print(row(f"{aim}: one cycle, {epochs} epochs", [found(task, seed, epochs) for seed in seeds]), flush=True)


if __name__ == "__main__":
    main()
