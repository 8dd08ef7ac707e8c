"""What a checkpoint costs: how long the update waits for it, and how much slower the run is while one is being written.

A model of 25 million parameters with its AdamW, 300 MB of state. Three ways to save take turns, so that a slow moment of the
machine hits all of them: Instep in the background, Instep waiting for the disk, and torch.save waiting for the disk. The table
shows medians of the rounds; the first round, which takes fresh memory, is told apart.

    python benchmarks/checkpoint.py [--rounds 7] [--folder .]
"""

import argparse
import os
import statistics
import tempfile
import time
from pathlib import Path

import torch
from torch import Tensor, nn

from instep.checkpoint import Checkpoint, Writer, capture_optimizer, check, read_newest

WIDTH, LAYERS, BATCH = 2048, 6, 16


class Run:
    """Something that trains."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.model = nn.Sequential(*(nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS)))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), fused=True)
        self._x = torch.randn(BATCH, WIDTH)
        self.step = 0

    def update(self) -> Tensor:
        self.optimizer.zero_grad()
        loss: Tensor = self.model(self._x).square().mean()
        loss.backward()
        self.optimizer.step()
        self.step += 1
        return loss

    def checkpoint(self) -> Checkpoint:
        parts = {
            "model": self.model.state_dict(),
            "optimizer": capture_optimizer(self.optimizer, self.model.named_parameters()),
        }
        return Checkpoint(self.step, parts, {"step": self.step})


def updates_per_s(run: Run, count: int) -> float:
    begun = time.perf_counter()
    for _ in range(count):
        run.update()
    return count / (time.perf_counter() - begun)


def in_the_background(run: Run, writer: Writer) -> tuple[float, float, float]:
    """Seconds that the update waits, updates a second while the checkpoint is being written, and seconds until it is."""
    begun = time.perf_counter()
    writer.save(run.checkpoint())
    waited = time.perf_counter() - begun
    beside, count = time.perf_counter(), 0
    while writer.writing:
        run.update()
        count += 1
    taken = time.perf_counter() - beside
    writer.wait()
    return waited, count / taken, waited + taken


def in_the_foreground(run: Run, writer: Writer) -> float:
    begun = time.perf_counter()
    writer.save(run.checkpoint())
    return time.perf_counter() - begun


def by_torch(run: Run, path: Path) -> float:
    """What people write, plus the sync without which a crash of the machine takes the file."""
    begun = time.perf_counter()
    with open(path, "wb") as file:
        torch.save({"model": run.model.state_dict(), "optimizer": run.optimizer.state_dict(), "step": run.step}, file)
        file.flush()
        os.fsync(file.fileno())
    return time.perf_counter() - begun


def main() -> None:
    parser = argparse.ArgumentParser(description="What a checkpoint of 300 MB costs.")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--folder", type=Path, default=Path(), help="on the disk to be measured")
    options = parser.parse_args()
    run = Run()
    updates_per_s(run, 3)
    alone: list[float] = []
    beside: list[float] = []
    seconds: dict[str, list[float]] = {"background": [], "foreground": [], "torch.save": [], "until written": []}
    with tempfile.TemporaryDirectory(dir=options.folder) as parent:
        background = Writer(Path(parent) / "background", keep=1)
        foreground = Writer(Path(parent) / "foreground", keep=1, background=False)
        for _ in range(options.rounds + 1):
            alone.append(updates_per_s(run, 6))
            waited, rate, whole = in_the_background(run, background)
            beside.append(rate)
            seconds["background"].append(waited)
            seconds["until written"].append(whole)
            seconds["foreground"].append(in_the_foreground(run, foreground))
            seconds["torch.save"].append(by_torch(run, Path(parent) / "checkpoint.pt"))
        begun = time.perf_counter()
        newest, _ = read_newest(Path(parent) / "background")
        reading = time.perf_counter() - begun
        assert newest is not None
    report(check(run.checkpoint()), seconds, alone, beside, reading)


def report(size: int, seconds: dict[str, list[float]], alone: list[float], beside: list[float], reading: float) -> None:
    median = {name: statistics.median(taken[1:]) for name, taken in seconds.items()}
    print(f"{size / 1e6:.0f} MB of state, {torch.get_num_threads()} threads, {len(alone) - 1} rounds, medians\n")
    print(f"{'the update waits for':<40}{'ms':>8}{'share':>9}{'first, ms':>12}")
    for name, told in (
        ("foreground", "Instep, waiting for the disk"),
        ("torch.save", "torch.save and fsync"),
        ("background", "Instep, in the background"),
    ):
        share = statistics.median(one / other for one, other in zip(seconds[name][1:], seconds["foreground"][1:], strict=True))
        print(f"  {told:<38}{median[name] * 1e3:>8.0f}{share:>9.0%}{seconds[name][0] * 1e3:>12.0f}")
    without, along = statistics.median(alone[1:]), statistics.median(beside[1:])
    print(f"\n{'updates a second':<40}{'':>8}")
    print(f"  {'with nothing beside':<38}{without:>8.1f}")
    print(f"  {'while a checkpoint is written':<38}{along:>8.1f}{along / without:>9.0%}")
    print(f"  which takes {median['until written']:.2f} s; read back and verified in {reading:.2f} s")


if __name__ == "__main__":
    main()
