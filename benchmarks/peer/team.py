"""The processes of a contestant: one, or two that train together. They stay alive and are asked for one measurement at a time."""

import json
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.peer.work import WORKS
from instep.data import Order

LIMIT_S = 300.0  # an answer that takes longer does not come


class Dead(Exception):
    """A process ended where an answer was due."""


class Team:
    """The workers of one contestant for works of so many processes."""

    def __init__(self, contestant: str, processes: int, folder: Path) -> None:
        self._folder = folder / f"{contestant}-{processes}"
        self._folder.mkdir(parents=True, exist_ok=True)
        self.log = self._folder / "stderr.txt"
        port = _free_port()
        self._workers = []
        for rank in range(processes):
            environment = _environment(rank, processes, port) if processes > 1 else _environment()
            self._workers.append(_start([contestant, str(self._folder)], environment, self.log))

    def wait(self) -> None:
        """Until the library is imported."""
        for worker in self._workers:
            _read(worker, self.log)

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """What the slowest process took by the clock, and all of them by their processors."""
        for worker in self._workers:
            assert worker.stdin is not None
            worker.stdin.write(json.dumps(request) + "\n")
            worker.stdin.flush()
        answers = [_read(worker, self.log) for worker in self._workers]
        first = next((one for one in answers if "failed" in one), answers[0])
        if "train_s" in first:
            first["train_s"] = max(one["train_s"] for one in answers)
            first["processor_s"] = sum(one["processor_s"] for one in answers)
        return first

    def stop(self) -> None:
        for worker in self._workers:
            worker.kill()
            worker.wait()


def run_fresh(contestant: str, folder: Path, request: dict[str, Any]) -> dict[str, Any]:
    """A process for this measurement alone, timed from its start to its end."""
    folder = folder / f"{contestant}-fresh"
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "stderr.txt"
    work = WORKS[request["work"]]
    samples = (work.quick() if request["quick"] else work).samples
    np.save(folder / f"order-{samples}.npy", Order(samples, seed=0, epoch=0)[:])
    begun = time.perf_counter()
    worker = _start([contestant, str(folder), json.dumps(request)], _environment(), log)
    answer = _read(worker, log)
    worker.wait()
    if "train_s" in answer:
        answer["train_s"] = time.perf_counter() - begun
    return answer


def _start(arguments: list[str], environment: dict[str, str], log: Path) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "benchmarks.peer.worker", *arguments]
    with open(log, "a") as stderr:
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, text=True, env=environment)


def _read(worker: "subprocess.Popen[str]", log: Path) -> dict[str, Any]:
    assert worker.stdout is not None
    watch = threading.Timer(LIMIT_S, worker.kill)
    watch.start()
    line = worker.stdout.readline()
    watch.cancel()
    if not line:
        said = log.read_text(errors="replace").strip().splitlines()
        raise Dead(said[-1][:300] if said else f"ended with code {worker.wait()}")
    answer: dict[str, Any] = json.loads(line)
    return answer


def _environment(rank: int = 0, processes: int = 1, port: int = 0) -> dict[str, str]:
    """What torchrun would set, where there are several processes; no library looks for anything on a network."""
    quiet = {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "PYTHONWARNINGS": "ignore", "OMP_NUM_THREADS": "2"}
    if processes == 1:
        return os.environ | quiet
    world = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": processes, "LOCAL_WORLD_SIZE": processes, "GROUP_RANK": 0}
    meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "TORCHELASTIC_RUN_ID": "peers", "OMP_NUM_THREADS": 1}
    return os.environ | quiet | {name: str(value) for name, value in (world | meeting).items()}


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port
