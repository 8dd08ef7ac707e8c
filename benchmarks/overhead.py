"""What the Trainer costs: the plain loop, the best loop one can write by hand, the Trainer, and the Trainer with its defaults.

12,800 × 784 tensors, an MLP 784-128-10, batches of 64, AdamW, one thread. The ways take turns, so that a slow moment of the
machine hits all of them; the table shows medians and ratios of one run. The defaults are a new run folder with its history and
checkpoints, and progress; what they cost is seen beside the same training and validation without them, of one epoch and of ten.

    python benchmarks/overhead.py [--rounds 15]
"""

import argparse
import contextlib
import io
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

from instep import Trainer

SAMPLES, BATCH, VALID = 12_800, 64, 640


def mlp() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))


def plain(x: Tensor, y: Tensor, fused: bool) -> float:
    """The loop of the tutorials: DataLoader(TensorDataset), and a loss that is read every 100 batches."""
    model = mlp()
    optimizer = torch.optim.AdamW(model.parameters(), fused=fused)
    loader = DataLoader(TensorDataset(x, y), batch_size=BATCH, shuffle=True)
    begun = time.perf_counter()
    for i, (xb, yb) in enumerate(loader):
        optimizer.zero_grad()
        loss = cross_entropy(model(xb), yb)
        loss.backward()
        optimizer.step()
        if i % 100 == 0:
            loss.item()
    return time.perf_counter() - begun


def by_hand(x: Tensor, y: Tensor, fused: bool) -> float:
    """The fastest loop: one index_select a batch, nothing read."""
    model = mlp()
    optimizer = torch.optim.AdamW(model.parameters(), fused=fused)
    begun = time.perf_counter()
    for indices in torch.randperm(SAMPLES).split(BATCH):
        xb, yb = x.index_select(0, indices), y.index_select(0, indices)
        optimizer.zero_grad()
        loss = cross_entropy(model(xb), yb)
        loss.backward()
        optimizer.step()
    return time.perf_counter() - begun


def trainer(x: Tensor, y: Tensor, fused: bool, *, epochs: int = 1, validates: bool = False, writes: bool = False) -> float:
    """Seconds an epoch; where it `writes`, with what a run has by default: progress, a new run folder, history, checkpoints."""
    model = mlp()
    options: dict[str, Any] = {"valid": (x[:VALID], y[:VALID]), "metrics": "accuracy"} if validates else {}
    with tempfile.TemporaryDirectory() as parent, contextlib.redirect_stderr(io.StringIO()):
        run = Trainer(
            model,
            loss=cross_entropy,
            optimizer=torch.optim.AdamW(model.parameters(), fused=fused),
            train=(x, y),
            epochs=epochs,
            batch_size=BATCH,
            progress=None if writes else False,
            folder=Path(parent) / "run" if writes else None,
            **options,
        )
        begun = time.perf_counter()
        run.fit()
        return (time.perf_counter() - begun) / epochs


WAYS: dict[str, Callable[[Tensor, Tensor, bool], float]] = {
    "a  plain loop, DataLoader(TensorDataset)": plain,
    "b  by hand, index_select": by_hand,
    "c  Trainer": trainer,
    "d  Trainer, validation": partial(trainer, validates=True),
    "e  Trainer, validation, defaults": partial(trainer, validates=True, writes=True),
    "f  as d, 10 epochs": partial(trainer, validates=True, epochs=10),
    "g  as e, 10 epochs": partial(trainer, validates=True, writes=True, epochs=10),
}


def main() -> None:
    parser = argparse.ArgumentParser(description="What the Trainer costs beside the plain loop.")
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    torch.set_num_threads(1)
    x, y = torch.randn(SAMPLES, 784), torch.randint(10, (SAMPLES,))
    for fused in (False, True):
        seconds: dict[str, list[float]] = {name: [] for name in WAYS}
        for done in range(rounds + 1):
            for name, way in WAYS.items():
                taken = way(x, y, fused)
                if done:  # the first round warms up
                    seconds[name].append(taken)
        print(f"\nAdamW{' (fused)' if fused else ''}, {rounds} rounds{'samples/s':>33}{'µs an update':>15}")
        for name, epochs in seconds.items():
            median = statistics.median(epochs)
            print(f"  {name:<46}{SAMPLES / median:>10,.0f}{median / (SAMPLES // BATCH) * 1e6:>15,.0f}")
        a, b, c, d, e, f, g = seconds.values()
        print(f"  c is {_ratio(a, c):.2f} × as fast as a and {_ratio(b, c):.3f} × as fast as b")
        print(f"  e is {_ratio(d, e):.3f} × as fast as d, and g is {_ratio(f, g):.3f} × as fast as f")


def _ratio(one: list[float], other: list[float]) -> float:
    """The median over rounds of one/other: both sides of a ratio come from the same moment."""
    return statistics.median(first / second for first, second in zip(one, other, strict=True))


if __name__ == "__main__":
    main()
