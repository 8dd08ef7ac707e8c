"""One library: every promise in every way that it has, each training in a process of its own.

The library is imported once, and the process of a training is a fork: no training sees what another left behind.

    python -m benchmarks.promise.measure instep plain    # prints JSON, a line a library
"""

import importlib
import json
import os
import signal
import sys
import tempfile
import traceback
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch

from benchmarks.peer.contestants import CONTESTANTS
from benchmarks.promise.task import PROMISES, Promise, Task

os.environ |= {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
KILLED = -signal.SIGKILL


class Failed(Exception):
    """A training that ended otherwise than it should."""


def main(libraries: list[str]) -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a library prints is no answer
    torch.set_num_threads(1)
    Task().optimizer(Task().model())  # a first optimizer imports a second's worth of modules: here, and not in each process
    for name in libraries:
        module = importlib.import_module(f"benchmarks.promise.{CONTESTANTS[name].module}")
        with tempfile.TemporaryDirectory() as folder:
            found = {promise: list(measure_ways(module, promise, Path(folder))) for promise in PROMISES}
        print(json.dumps({name: found}), file=answers, flush=True)


def measure_ways(module: ModuleType, name: str, folder: Path) -> Iterator[dict[str, Any]]:
    """What came out of each way, in the order of the library's file."""
    for way, how in module.WAYS[name].items():
        place = folder / f"{name}-{way}"
        place.mkdir()
        try:
            yield {"how": how, **compare(module, PROMISES[name].in_way(way), place)}
        except Failed as error:
            yield {"how": how, "failed": str(error)}


def compare(module: ModuleType, promise: Promise, folder: Path) -> dict[str, Any]:
    if promise.interrupted:
        one, _ = train(module, with_folder(promise.one, folder / "one"), folder / "one.npy")
        torn = with_folder(promise.other, folder / "other")
        train(module, torn, folder / "torn.npy", ends=KILLED)
        other, again = train(module, replace(torn, killed_at=0), folder / "other.npy")
        apart = difference(one, other)
        if apart == 0.0 and again >= promise.one.epochs * promise.one.micro_batches:
            raise Failed("the run began again instead of resuming")
        return {"difference": apart, "micro_batches": again}
    one, _ = train(module, promise.one, folder / "one.npy")
    other, _ = train(module, promise.other, folder / "other.npy")
    return {"difference": difference(one, other)}


def with_folder(task: Task, folder: Path) -> Task:
    folder.mkdir()
    return replace(task, folder=folder)


def difference(one: np.ndarray, other: np.ndarray) -> float:
    """How far apart two sets of weights are, relative to their size; 0.0 is equal bit for bit."""
    if one.shape != other.shape or not np.isfinite(one).all() or not np.isfinite(other).all():
        raise Failed("the weights cannot be compared")
    return float(np.linalg.norm(one - other) / np.linalg.norm(one))


def train(module: ModuleType, task: Task, path: Path, *, ends: int = 0) -> tuple[np.ndarray, int]:
    """The weights of a training in a process of its own, and on how many micro-batches it trained."""
    if child := os.fork():
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if code != ends:
            raise Failed(f"ended with code {code} instead of {ends}")
        if ends:
            return np.empty(0), 0
        saved = np.load(path)
        return saved[1:], int(saved[0])
    os.environ["KILLED_AT"] = str(task.killed_at)
    try:
        trained = module.train(task)
        weights = torch.cat([one.flatten() for one in trained.weights]).double().numpy()
        np.save(path, np.concatenate([[trained.micro_batches], weights]))
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
