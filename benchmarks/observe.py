"""What looking at a run costs: each view alone and all together, beside the lean Trainer. Needs the extra `serve`.

The work of `overhead.py`: an MLP 784-128-10, batches of 64, AdamW, one thread, several epochs in one fit. The ways take turns, so
that a slow moment of the machine hits all of them. The table shows medians, and the median of the ratios within a turn: by the
clock, and in CPU time of the training process, which is what counts on a busy machine. What is paid once a fit (opening a folder,
the last line) is timed apart. Progress is drawn on a real pseudo terminal that another process reads; `instep serve` is a process
of its own with a visitor in a third: with two cores or fewer they compete with the training.

    python -m benchmarks.observe [--rounds 9] [--epochs 10]
"""

import argparse
import io
import os
import pty
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from benchmarks.overhead import BATCH, SAMPLES, VALID, mlp
from instep import Trainer
from instep.cli import main as instep

AIM = 1.05  # of all views together

DRAIN = "import os, sys\nwhile os.read(0, 65536): pass"
VISITOR = """
import http.client, sys
port = int(sys.argv[1])
def get(path):
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.request("GET", path)
    return connection.getresponse()
while True:
    try:
        get("/report?run=run").read()
        events = get("/events?run=run")
        while line := events.readline():
            if b"changed" in line:
                get("/document?run=run").read()
    except OSError:
        break
"""


@dataclass(frozen=True)
class View:
    """One way to look at a run."""

    name: str
    progress: bool = False
    folder: bool = False
    serve: bool = False
    evaluates: bool = False
    aim: float | None = None
    arguments: dict[str, Any] = field(default_factory=dict)


NO_SAVES = {"checkpoint_every": None}
VIEWS = [
    View("lean"),
    View("progress in a terminal", progress=True),
    View("history in a folder", folder=True, arguments=NO_SAVES),
    View("history, read by instep serve", folder=True, serve=True, arguments=NO_SAVES),
    View("all views together", progress=True, folder=True, serve=True, arguments=NO_SAVES, aim=AIM),
]
WORK = [
    View("the norm of the gradient, clip_norm=inf", arguments={"clip_norm": float("inf")}),
    View("an evaluation of 640 samples an epoch", evaluates=True),
    View("a checkpoint an epoch", folder=True),
    View("doctor=True", arguments={"doctor": True}),
]


class Taken(NamedTuple):
    """Seconds of the updates by the clock and of CPU time, and those of the rest of a fit."""

    clock_s: float
    cpu_s: float
    once_s: float


@contextmanager
def terminal() -> Iterator[None]:
    """stderr is a pseudo terminal, which another process reads as a terminal does."""
    outer, inner = pty.openpty()
    reader = subprocess.Popen([sys.executable, "-S", "-c", DRAIN], stdin=outer, stderr=subprocess.DEVNULL)
    os.close(outer)
    try:
        with os.fdopen(inner, "w", encoding="utf-8") as stream, redirect_stderr(stream):
            yield
    finally:
        reader.kill()
        reader.wait()


@contextmanager
def served(folder: Path) -> Iterator[None]:
    """`instep serve` in a process, and a visitor who has the page of the run open."""
    command = [sys.executable, "-m", "instep", "serve", str(folder), "--port", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert server.stdout is not None
    found = re.search(r":(\d+)/", server.stdout.readline())
    assert found, "instep serve did not start; is the extra `serve` installed?"
    visitor = subprocess.Popen([sys.executable, "-S", "-c", VISITOR, found[1]], stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        for process in (visitor, server):
            process.kill()
            process.wait()


def fit(view: View, data: tuple[Tensor, Tensor], epochs: int, parent: Path) -> Taken:
    """From the end of the first update to that of the last one, and the rest of the fit."""
    x, y = data
    model = mlp()
    held_out: dict[str, Any] = {"valid": (x[:VALID], y[:VALID]), "metrics": "accuracy"} if view.evaluates else {}
    trainer = Trainer(
        model,
        loss=cross_entropy,
        optimizer=torch.optim.AdamW(model.parameters()),
        train=data,
        epochs=epochs,
        batch_size=BATCH,
        progress=view.progress,
        folder=parent / "run" if view.folder else None,
        **held_out,
        **view.arguments,
    )
    begun = time.perf_counter()
    first = last = (0.0, 0.0)
    for update in trainer.updates():
        if update.step == 0 or update.step == trainer.total_steps - 1:
            last = time.perf_counter(), time.process_time()
            first = last if update.step == 0 else first
    clock_s = last[0] - first[0]
    return Taken(clock_s, last[1] - first[1], time.perf_counter() - begun - clock_s)


def turn(view: View, data: tuple[Tensor, Tensor], epochs: int) -> Taken:
    """One fit of a view, in a folder of its own; servers have started before its clock does."""
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        parent = Path(name)
        if view.serve:
            stack.enter_context(served(parent))
        if view.progress:
            stack.enter_context(terminal())
        else:  # the doctor has its say at the end
            stack.enter_context(redirect_stderr(io.StringIO()))
        return fit(view, data, epochs, parent)


def report_s(data: tuple[Tensor, Tensor], epochs: int) -> float:
    """Seconds that `instep report` takes after a run, in this process."""
    with tempfile.TemporaryDirectory() as name:
        fit(View("", folder=True), data, epochs, Path(name))
        begun = time.perf_counter()
        with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere):
            assert instep(["report", f"{name}/run"]) == 0
        return time.perf_counter() - begun


def main() -> None:
    parser = argparse.ArgumentParser(description="What looking at a run costs beside the lean Trainer.")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--epochs", type=int, default=10)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    data = torch.randn(SAMPLES, 784), torch.randint(10, (SAMPLES,))
    measure(data, asked.rounds, asked.epochs)


def measure(data: tuple[Tensor, Tensor], rounds: int, epochs: int) -> None:
    views = [*VIEWS, *WORK]
    times: dict[str, list[Taken]] = {view.name: [] for view in views}
    for done in range(rounds + 1):
        for view in views:
            taken = turn(view, data, epochs)
            if done:  # the first round warms up
                times[view.name].append(taken)
    updates = epochs * (SAMPLES // BATCH) - 1
    print(f"{rounds} rounds of {updates + 1:,} updates, {os.cpu_count()} cores")
    print(f"\n{'views':<41}{'µs an update':>13}{'× lean':>8}{'CPU':>8}{'once a fit':>13}{'aim':>7}")
    for view in views:
        if view is WORK[0]:
            print("\nwork that one asks for")
        found = times[view.name]
        clock, cpu = (
            statistics.median(ours[kind] / lean[kind] for ours, lean in zip(found, times["lean"], strict=True)) for kind in (0, 1)
        )
        paid = statistics.median(one.clock_s for one in found) / updates * 1e6
        once = statistics.median(one.once_s for one in found) * 1e3
        met = "" if view.aim is None else f"{view.aim:>7.2f}  {'met' if clock <= view.aim else 'MISSED'}"
        print(f"{view.name:<41}{paid:>13,.0f}{clock:>8.3f}{cpu:>8.3f}{once:>10,.0f} ms{met}")
    print(f"\ninstep report after such a run: {statistics.median(report_s(data, epochs) for _ in range(3)):.2f} s")


if __name__ == "__main__":
    main()
