"""What the doctor costs: training steps watched and not watched, in turns, in CPU time.

An MLP whose step takes about 0.6 ms (the worst case: there is least to hide behind) and a small transformer, one thread,
AdamW, clipping and a schedule in the loop, after the first steps, which are all looked at; of the larger ones also those first
steps. Every watched block stands between unwatched ones of the same run; the table shows the ratio of the means of the fastest
third of each kind, and the median of the ratios of neighbours. Then whole scripts, each a process of its own, with `python` and
with `instep doctor` in turns: importing the doctor, the first steps and the report are in it; compiling the doctor's source,
which happens once, is not. Then memory over 100,000 watched steps. Last, counts that no load of the machine changes: Python
functions that a step calls when it is not watched, when it is, and while the doctor rests; and the page faults of a step, which
depend on how memory happens to be laid out and may make a step of large tensors faster or slower.

    python benchmarks/doctor.py [--rounds 15] [--profile] [--only steps|scripts|memory|counts]
"""

import argparse
import cProfile
import gc
import itertools
import os
import pstats
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from instep.doctor.step_sampling import EVERY_LARGE, FIRST
from instep.doctor.watcher import Watcher


@dataclass(frozen=True)
class Work:
    """Something to train."""

    name: str
    model: Callable[[], nn.Module]
    batch: Callable[[], tuple[Tensor, Tensor]]
    steps: int  # in a block
    aim: float
    before: int = FIRST  # steps before them
    to_none: bool = True  # how gradients are cleared


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


def _mlp(*widths: int) -> nn.Module:
    layers = [part for pair in itertools.pairwise(widths) for part in (nn.Linear(*pair), nn.ReLU())]
    return nn.Sequential(*layers[:-1])


WORKS = [
    Work(
        "MLP 16-32-2, batch 64",
        lambda: _mlp(16, 32, 2),
        lambda: (torch.randn(64, 16), torch.randint(2, (64,))),
        steps=1000,
        aim=1.05,
    ),
    Work(
        "the same, cleared in place",
        lambda: _mlp(16, 32, 2),
        lambda: (torch.randn(64, 16), torch.randint(2, (64,))),
        steps=1000,
        aim=1.07,
        to_none=False,
    ),
    Work(
        "MLP 784-1024-1024-10, cleared in place",
        lambda: _mlp(784, 1024, 1024, 10),
        lambda: (torch.randn(128, 784), torch.randint(10, (128,))),
        steps=30,
        aim=1.07,
        before=30,
        to_none=False,
    ),
    *(
        Work(
            f"transformer 4 × 128, steps {before + 1} to {before + steps}",
            Transformer,
            lambda: (torch.randint(256, (8, 64)), torch.randint(256, (8, 64))),
            steps=steps,
            aim=1.02,
            before=before,
        )
        for before, steps in ((30, 20), (FIRST, EVERY_LARGE))
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
        optimizer.zero_grad(set_to_none=work.to_none)
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
        for _ in range(work.before):
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


SCRIPT = """
import sys
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

kind, epochs = sys.argv[1], int(sys.argv[2])
torch.manual_seed(0)
torch.set_num_threads(1)
x, y = torch.randn(1024, 16), torch.randint(4, (1024,))
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 4))
if kind == "images":
    x = torch.randn(1024, 1, 16, 16)
    first = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 16, 3, stride=2), nn.ReLU())
    model = nn.Sequential(first, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 4))
train = DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True)
valid = DataLoader(TensorDataset(torch.randn_like(x[:128]), y[:128]), batch_size=64)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for epoch in range(epochs):
    model.train()
    for a, b in train:
        optimizer.zero_grad(set_to_none=kind != "in place")
        nn.functional.cross_entropy(model(a), b).backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        correct = sum((model(a).argmax(1) == b).sum().item() for a, b in valid)
"""
SCRIPTS = {"rows": 90, "in place": 90, "images": 50}  # epochs: so many that a script takes 3 s and more


def script_seconds(command: list[str], bytecode: str) -> float:
    """Processor time of a process that finds its bytecode in a folder, as an installed package has it."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPYCACHEPREFIX"] = bytecode
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *command], check=True, capture_output=True, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure_scripts(rounds: int) -> None:
    """Whole scripts, watched and not, in turns."""
    print(f"\n{'':<38}{'s a script':>10}{'median':>8}{'':>12}{'aim':>7}")
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "script.py"
        script.write_text(SCRIPT, encoding="utf-8")
        for kind, epochs in SCRIPTS.items():
            command, bytecode = [str(script), kind, str(epochs)], str(Path(folder) / "bytecode")
            script_seconds(["-m", "instep", "doctor", str(script), kind, "1"], bytecode)  # writes it
            plain, ratios = [script_seconds(command, bytecode)], []
            for _ in range(rounds):
                watched = script_seconds(["-m", "instep", "doctor", *command], bytecode)
                plain.append(script_seconds(command, bytecode))
                ratios.append(2 * watched / (plain[-1] + plain[-2]))
            print(f"script, {kind:<30}{statistics.median(plain):>10.2f}{statistics.median(ratios):>8.3f}{'':>12}{1.07:>7.2f}")


def count(work: Work, *, watched: bool, before: int, steps: int = 16) -> tuple[float, float]:
    """Python functions that a step calls, and its page faults."""
    with Watcher() if watched else nullcontext():
        going_on = training(work)
        for _ in range(before):
            next(going_on)
        faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        for _ in range(steps):
            next(going_on)
        faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - faults
        profiler = cProfile.Profile(builtins=False)
        profiler.enable()
        for _ in range(steps):
            next(going_on)
        profiler.disable()
    return sum(entry.callcount for entry in profiler.getstats()) / steps, faults / steps


def measure_counts() -> None:
    """Of one work of each kind, after 32 steps and, where the doctor rests by then, after those that are all watched."""
    print(f"\n{'Python calls (page faults) a step':<38}{'plain':>16}{'watched':>16}{'resting':>16}")
    for work in {work.name.partition(",")[0]: work for work in WORKS}.values():
        counts = [count(work, watched=False, before=32), count(work, watched=True, before=32)]
        counts.append(count(work, watched=True, before=FIRST + 8))
        print(f"{work.name:<38}" + "".join(f"{calls:>8.0f} {f'({faults:.0f})':>7}" for calls, faults in counts))


def measure_memory(steps: int = 100_000) -> None:
    """What the process holds, at a few moments of a long watched run."""
    print(f"\n{'watched steps':<38}{'MB':>10}{'objects':>10}")
    with Watcher():
        going_on = training(WORKS[0])
        for done in range(1, steps + 1):
            next(going_on)
            if done in (steps // 10, steps // 5, steps // 2, steps):
                gc.collect()
                pages = int(Path("/proc/self/statm").read_text().split()[1])
                print(f"{done:<38,}{pages * resource.getpagesize() / 1e6:>10.1f}{len(gc.get_objects()):>10,}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--only", choices=("steps", "scripts", "memory", "counts"))
    given = parser.parse_args()
    torch.set_num_threads(1)
    if given.profile:
        profile(WORKS[0])
        return
    if given.only in (None, "steps"):
        print(f"{'':<38}{'ms a step':>10}{'ratio':>8}{'neighbours':>12}{'aim':>7}")
        for work in WORKS:
            rounds = given.rounds if work.steps > 200 or work.before < FIRST else max(given.rounds // 3, 1)
            ms, ratio, neighbours = measure(work, rounds)
            print(f"{work.name:<38}{ms:>10.3f}{ratio:>8.3f}{neighbours:>12.3f}{work.aim:>7.2f}")
    if given.only in (None, "scripts"):
        measure_scripts(max(given.rounds // 3, 1))
    if given.only in (None, "memory"):
        measure_memory()
    if given.only in (None, "counts"):
        measure_counts()


if __name__ == "__main__":
    main()
