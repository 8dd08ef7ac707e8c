"""What it is worth that a Trainer keeps freed memory from one update to the next on a CPU.

Three models of everyday size, each trained by the best loop that one can write by hand and by a Trainer, every time in a new
process, in turns: how memory comes to lie differs from process to process. The table has medians over the processes, with the
slowest one beside them, and the page faults of an update.

    python -m benchmarks.freed_memory [--rounds 5] [--threads 2]
"""

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

UPDATES, WARM = 25, 5


class Tokens(nn.Module):
    """Four layers of 128; the class of a sequence."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(256, 128)
        layer = nn.TransformerEncoderLayer(128, 4, 512, dropout=0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
        self.head = nn.Linear(128, 10)

    def forward(self, tokens: Tensor) -> Tensor:
        scores: Tensor = self.head(self.layers(self.embedding(tokens)).mean(1))
        return scores


def _mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(784, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10))


def _cnn() -> nn.Module:
    return nn.Sequential(
        *(nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(32, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU()),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10)),
    )


# title, model, one batch of inputs
WORKS: dict[str, tuple[str, Callable[[], nn.Module], Callable[[], Tensor]]] = {
    "mlp": ("MLP 784-1024-1024-10, batch 128", _mlp, lambda: torch.randn(128, 784)),
    "cnn": ("CNN on 3×32×32, batch 128", _cnn, lambda: torch.randn(128, 3, 32, 32)),
    "transformer": ("transformer 4 × 128, batch 8 × 128", Tokens, lambda: torch.randint(256, (8, 128))),
}


def _by_hand(model: nn.Module, optimizer: torch.optim.Optimizer, x: Tensor, y: Tensor) -> Iterator[None]:
    while True:
        optimizer.zero_grad()
        cross_entropy(model(x), y).backward()
        optimizer.step()
        yield


def _by_trainer(model: nn.Module, optimizer: torch.optim.Optimizer, x: Tensor, y: Tensor) -> Iterator[object]:
    from instep import Trainer

    return Trainer(
        model,
        loss=cross_entropy,
        optimizer=optimizer,
        train=(x, y),
        batch_size=len(x),
        epochs=UPDATES + 1,
        progress=False,
    ).updates()


def measure(work: str, who: str, threads: int) -> tuple[float, float]:
    """Milliseconds (the median) and page faults of an update in this process."""
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    _, make, inputs = WORKS[work]
    model, x = make(), inputs()
    y = torch.randint(10, (len(x),))
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    updates = (_by_hand if who == "hand" else _by_trainer)(model, optimizer, x, y)
    for _ in range(WARM):
        next(updates)
    faults, times = resource.getrusage(resource.RUSAGE_SELF).ru_minflt, []
    for _ in range(UPDATES - WARM):
        begun = time.perf_counter()
        next(updates)
        times.append(time.perf_counter() - begun)
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - faults
    return statistics.median(times) * 1e3, faults / len(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--one", nargs=2, metavar=("WORK", "WHO"), help="measure here, and print JSON")
    given = parser.parse_args()
    if given.one:
        work, who = given.one
        print(json.dumps(measure(work, who, given.threads)))
        return
    print(f"{given.threads} threads, {given.rounds} processes each: ms an update, median (slowest), page faults")
    for work, (title, *_) in WORKS.items():
        found: dict[str, list[tuple[float, float]]] = {"hand": [], "trainer": []}
        for _ in range(given.rounds):
            for who, each in found.items():
                command = [sys.executable, "-m", "benchmarks.freed_memory", "--threads", str(given.threads), "--one", work, who]
                each.append(tuple(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)))
        ratio = statistics.median(hand[0] / own[0] for hand, own in zip(found["hand"], found["trainer"], strict=True))
        print(f"{title:<38}by hand {cell(found['hand'])}   Trainer {cell(found['trainer'])}   {ratio:.2f} × as fast")


def cell(found: list[tuple[float, float]]) -> str:
    times, faults = zip(*found, strict=True)
    return f"{statistics.median(times):>8.1f} ({max(times):.1f}){statistics.median(faults):>8.0f}"


if __name__ == "__main__":
    main()
