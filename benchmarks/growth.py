"""What grows with a run: python benchmarks/growth.py [--history | --updates [--only WORDS]] [--quick]

History: a run of a million lines, shown, listed, compared, reported, served and resumed, each in a process of its own. The aims:
5 s, and 400 MB beside what importing torch takes.

Updates: the cost of an update in two runs that differ in one thing (the step, the length of the history, the size of the data
set, the number of checkpoints). Both live in one process and take turns; a ratio is the median over the turns. The aim is 1.05.
With many parameter tensors the Trainer is compared with a loop by hand, which has the optimizer's own cost too.
"""

import argparse
import gc
import math
import os
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

LINES, UPDATES = 1_000_000, 50_000
ROUNDS = 40
MOST_S, MOST_MB, MOST_RATIO = 5.0, 400.0, 1.05


def main() -> None:
    parser = argparse.ArgumentParser(description="What grows with a run.")
    parser.add_argument("--history", action="store_true", help="only the long history")
    parser.add_argument("--updates", action="store_true", help="only the cost of updates")
    parser.add_argument("--quick", action="store_true", help="small numbers: does everything run?")
    parser.add_argument("--only", default="", metavar="WORDS", help="of the updates those whose name has these words")
    parser.add_argument("--make", nargs=2, metavar=("LINES", "FOLDER"), help="only make a run with a history of so many lines")
    parser.add_argument("--child", nargs=2, metavar=("WHAT", "FOLDER"), help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.child:
        {"serve": serve, "resume": resume}[asked.child[0]](Path(asked.child[1]))
    elif asked.make:
        make_run(Path(asked.make[1]), int(asked.make[0]))
    else:
        with tempfile.TemporaryDirectory() as folder:
            if not asked.updates:
                measure_history(Path(folder), LINES // 50 if asked.quick else LINES)
            if not asked.history:
                measure_updates(Path(folder), 50 if asked.quick else 1, asked.only)


# --- A long history


def line(step: int) -> dict[str, Any]:
    clock = {
        "samples_per_s": 1e5 * random.random(),
        "waiting": random.random() / 9,
        "seconds": step / 1639,
        "memory_bytes": 4 * 10**8,
    }
    values = {"loss": 1 / math.sqrt(step) + random.random() / 10, "lr": 1e-3 / step, "grad_norm": 3 * random.random()}
    return {"kind": "update", "step": step, "epoch": 0, **values, "clock": clock}


def make_run(folder: Path, lines: int) -> None:
    """A run that paused after its first update, with a history of so many lines."""
    from instep.run.history import History, HistoryFile
    from instep.run.history.jsonl import _line

    trainer = tiny(folder=folder, log_every=1)
    for _ in trainer.updates():
        with open(folder / "history.jsonl", "ab") as file:
            for step in range(2, lines + 1):
                file.write(_line(line(step)))
                if step % 1_000 == 0:
                    loss = {"train/loss": random.random(), "valid/loss": random.random()}
                    file.write(_line({"kind": "evaluation", "step": step, "epoch": 0, **loss, "clock": {"seconds": step / 1639}}))
        trainer.run.logbook.history = History(HistoryFile.read(folder / "history.jsonl").rows)
        break


def measure_history(folder: Path, lines: int) -> None:
    one, other = folder / "runs" / "one", folder / "runs" / "other"
    instep, this = [sys.executable, "-m", "instep"], [sys.executable, __file__]
    run_apart([*this, "--make", str(lines), str(one)])  # this process stays small: a child begins with the memory of its parent
    shutil.copytree(one, other)
    size_mb = (one / "history.jsonl").stat().st_size / 1e6
    bare = {name: run_apart([sys.executable, "-c", f"import {name}"]) for name in ("json", "torch")}
    print(f"\nA history of {lines:,} lines, {size_mb:.0f} MB; beside the import of torch")
    print(f"{'seconds':>46}{'of the processor':>20}{'MB':>8}")
    for name, command, imported in (
        ("instep show", [*instep, "show", str(one)], "json"),
        ("instep runs (two such runs)", [*instep, "runs", str(folder / "runs")], "json"),
        ("instep diff (two such runs)", [*instep, "diff", str(one), str(other)], "torch"),
        ("instep report", [*instep, "report", str(one), "-o", str(folder / "report.html")], "torch"),
        ("instep serve: the page of a run", [*this, "--child", "serve", str(folder / "runs")], "torch"),
        ("resume, to the first update", [*this, "--child", "resume", str(one)], "torch"),
    ):
        seconds, cpu_s, memory_mb = (taken - without for taken, without in zip(run_apart(command), bare[imported], strict=True))
        verdict = (
            ""
            if min(seconds, cpu_s) <= MOST_S and memory_mb <= MOST_MB
            else f"  over the aim of {MOST_S:.0f} s and {MOST_MB:.0f} MB"
        )
        print(f"  {name:<34}{seconds:>10.2f}{cpu_s:>20.2f}{memory_mb:>8.0f}{verdict}", flush=True)


def run_apart(command: list[str]) -> tuple[float, float, float]:
    """A process from its start to its end: seconds by the clock and of the processor, and the most memory it took, in MB."""
    began = time.perf_counter()
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit(f"{' '.join(command)} failed")
    return time.perf_counter() - began, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def serve(folder: Path) -> None:
    from instep.report.live.app import Reader
    from instep.report.live.index import Index
    from instep.report.page.html import page

    found = Reader(Index(folder)).document(["one"])
    assert found is not None
    assert page(found, live=True)


def resume(folder: Path) -> None:
    trainer = tiny(folder=folder, log_every=1)
    next(iter(trainer.updates()))
    assert trainer.resumed_from == 1


# --- The cost of an update


def stack(tensors: int) -> Any:
    """A model with so many parameter tensors."""
    import torch
    from torch import nn

    torch.manual_seed(0)
    return nn.Sequential(*(nn.Linear(8, 8) for _ in range(tensors // 2 - 1)), nn.Linear(8, 4))


def tiny(tensors: int = 4, **options: Any) -> Any:
    import torch
    from torch.nn.functional import cross_entropy

    from instep import Trainer

    model = stack(tensors)
    train = torch.randn(512, 8), torch.randint(4, (512,))
    options = {"epochs": None, "max_steps": 10**7, "batch_size": 16, "progress": False, "train": train, **options}
    return Trainer(model, loss=cross_entropy, optimizer=torch.optim.SGD(model.parameters(), lr=0.01), **options)


class ByTrainer:
    """A run that goes on for some updates when it is called."""

    def __init__(self, trainer: Any) -> None:
        self._updates = trainer.updates()

    def __call__(self, count: int) -> None:
        for _ in range(count):
            next(self._updates)

    def close(self) -> None:
        self._updates.close()


class ByHand:
    """The same by hand."""

    def __init__(self, tensors: int) -> None:
        import torch

        self._model = stack(tensors)
        self._optimizer = torch.optim.SGD(self._model.parameters(), lr=0.01)
        self._x, self._y = torch.randn(512, 8), torch.randint(4, (512,))

    def __call__(self, count: int) -> None:
        import torch
        from torch.nn.functional import cross_entropy

        for _ in range(count):
            indices = torch.randint(512, (16,))
            self._optimizer.zero_grad()
            loss = cross_entropy(self._model(self._x.index_select(0, indices)), self._y.index_select(0, indices))
            loss.backward()
            self._optimizer.step()

    def close(self) -> None:
        pass


Way = ByTrainer | ByHand


class Taken(NamedTuple):
    """Of some updates."""

    clock_s: float
    cpu_s: float


def measure_updates(folder: Path, smaller: int, only: str) -> None:
    import torch

    torch.set_num_threads(1)
    print(f"\n{'An update':<52}{'µs':>8}{'µs':>8}{'ratio':>8}{'by processor time':>20}")
    for name, (make, count) in cases(folder, smaller).items():
        if only not in name:
            continue
        one, other = make()
        rounds = compare(one, other, count=count, rounds=max(4, ROUNDS // smaller))
        clock = statistics.median(b.clock_s / a.clock_s for a, b in rounds)
        cpu = statistics.median(b.cpu_s / a.cpu_s for a, b in rounds)
        micros = [statistics.median(both[i].clock_s for both in rounds) / count * 1e6 for i in (0, 1)]
        verdict = "" if min(clock, cpu) <= MOST_RATIO else f"  over the aim of {MOST_RATIO}"
        print(f"  {name:<50}{micros[0]:>8.0f}{micros[1]:>8.0f}{clock:>8.3f}{cpu:>12.3f}{verdict}", flush=True)
        one.close()
        other.close()


def compare(one: Way, other: Way, *, count: int, rounds: int) -> list[tuple[Taken, Taken]]:
    """Both take turns of `count` updates; who is first changes."""
    gc.collect()
    taken = []
    for done in range(rounds + 2):
        first = {way: timed(way, count) for way in ((one, other) if done % 2 else (other, one))}
        if done > 1:  # the first rounds warm up
            taken.append((first[one], first[other]))
    return taken


def timed(way: Way, count: int) -> Taken:
    clock_s, cpu_s = time.perf_counter(), time.process_time()
    way(count)
    return Taken(time.perf_counter() - clock_s, time.process_time() - cpu_s)


def cases(folder: Path, smaller: int) -> dict[str, tuple[Callable[[], tuple[Way, Way]], int]]:
    """By name: what makes the smaller and the larger run, and how many updates they make in a turn."""
    updates, lines, kept = UPDATES // smaller, LINES // smaller, 10_000 // smaller
    return {
        f"at step 0, and after {updates:,} updates": (lambda: early_and_late(folder, updates), 100),
        f"resumed after 1,000 and after {lines:,} lines": (lambda: (resumed(folder, 1_000), resumed(folder, lines)), 100),
        **{
            f"data of {few:,} and of 1,000,000,000 samples": (
                partial(of_sizes, few, 10**9),
                100,
            )
            for few in (10**3, 10**6)
        },
        f"10 and {kept:,} checkpoints, one every 50 updates": (lambda: (keeping(folder, 10), keeping(folder, kept)), 100),
        **{
            f"{tensors:,} parameter tensors, by hand and by the Trainer": (
                partial(by_hand_and_trainer, tensors),
                10_000 // tensors,
            )
            for tensors in (20, 1_000)
        },
    }


def of_sizes(few: int, many: int) -> tuple[Way, Way]:
    return ByTrainer(tiny(train=Places(few))), ByTrainer(tiny(train=Places(many)))


def by_hand_and_trainer(tensors: int) -> tuple[Way, Way]:
    return ByHand(tensors), ByTrainer(tiny(tensors))


def early_and_late(folder: Path, updates: int) -> tuple[Way, Way]:
    early, late = (ByTrainer(tiny(folder=folder / name, checkpoint_every=None)) for name in ("early", "late"))
    early(1)
    late(updates // 10)
    before_mb = resident_mb()
    late(updates - updates // 10)
    print(f"  memory after {updates // 10:,} and after {updates:,} updates: {before_mb:.1f} and {resident_mb():.1f} MB")
    return early, late


def resumed(folder: Path, lines: int) -> Way:
    """A run that goes on after a history of so many lines, and adds one at each update."""
    make_run(folder / f"history-{lines}", lines)
    return ByTrainer(tiny(folder=folder / f"history-{lines}", log_every=1, checkpoint_every=None))


def keeping(folder: Path, count: int) -> Way:
    """A run that goes on with so many checkpoints in its folder, all of which share the files of one."""
    folder = folder / f"kept-{count}"
    for update in tiny(folder=folder, checkpoint_every=None).updates():
        if update.step == count:
            break
    (made,) = (folder / "checkpoints").glob("step-*")
    for step in range(1, count):
        shutil.copytree(made, made.with_name(f"step-{step:08d}"), copy_function=os.link)
    return ByTrainer(tiny(folder=folder, checkpoint_every=50, keep=None))


class Places:
    """A data set of any size, map style."""

    def __init__(self, size: int) -> None:
        import torch

        self._size, self._x = size, torch.randn(97, 8)

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, index: int) -> tuple[Any, int]:
        return self._x[index % 97], index % 4


def resident_mb() -> float:
    """What the process takes now."""
    gc.collect()
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:  # elsewhere than on Linux: the most it ever took
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return pages * resource.getpagesize() / 2**20


if __name__ == "__main__":
    main()
