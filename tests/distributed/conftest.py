"""Worlds of two and three real processes: each is made once, and makes every run of the list."""

import contextlib
import os
import random
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from distributed.forking import Forking
from distributed.runs import Build
from distributed.sizes import ON_THREE

TESTS = Path(__file__).resolve().parent.parent
LONGEST_S = 800  # of a world; it is killed then


@dataclass(frozen=True)
class Made:
    """What each process of a world found, by the name of the run."""

    size: int
    folder: Path
    by_rank: list[dict[str, Any]]

    def __getitem__(self, name: str) -> list[Any]:
        return [found[name] for found in self.by_rank]


def free_port() -> int:
    """Below those that a system gives to who asks for any: nobody gets it before rank 0 does, which comes seconds later."""
    while True:
        port = random.SystemRandom().randrange(20_000, 32_000)
        with contextlib.suppress(OSError), socket.socket() as free:
            free.bind(("127.0.0.1", port))
            return port


def environments(size: int) -> list[dict[str, str]]:
    """What a launcher puts into the environment of each rank."""
    shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": str(size), "OMP_NUM_THREADS": "1"}
    shared["PYTHONPATH"] = os.pathsep.join([str(TESTS), str(TESTS.parent / "src")])
    return [shared | {"RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(size)]


def start(size: int, folder: Path, arguments: list[str]) -> list["subprocess.Popen[str]"]:
    """A process for each rank; what they say goes to files in the folder."""
    processes = []
    for rank, own in enumerate(environments(size)):
        with open(folder / f"said-{rank}.txt", "w") as said:
            command = [sys.executable, *arguments]
            processes.append(subprocess.Popen(command, env=os.environ | own, stdout=said, stderr=subprocess.STDOUT, text=True))
    return processes


def waited_for(processes: list["subprocess.Popen[str]"], seconds: float = LONGEST_S) -> list[int]:
    """Their exit codes; who does not end is killed."""
    try:
        return [process.wait(seconds) for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()


@pytest.fixture(scope="session")
def forking() -> Iterator[list[Forking]]:
    """Two processes that fork the ranks of all worlds, in turn."""
    environment = {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join([str(TESTS), str(TESTS.parent / "src")])}
    made = [Forking(os.environ | environment) for _ in range(2)]
    yield made
    for one in made:
        one.close()


def forked(forking: list[Forking], size: int, folder: Path, module: str, arguments: list[str]) -> list[int]:
    """The exit codes of so many ranks, each of which calls main() of a module; what they say goes to files in the folder."""
    shared = {"folder": str(folder), "module": module, "arguments": arguments}
    ranks = [
        {"environment": own, "said": str(folder / f"said-{rank}.txt"), **shared} for rank, own in enumerate(environments(size))
    ]
    for place, one in enumerate(forking):
        one.start(ranks[place :: len(forking)])
    return [code for one in forking for code in one.exit_codes(LONGEST_S)]


@pytest.fixture(scope="session")
def world(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest, forking: list[Forking]
) -> Callable[[int], Made]:
    """The world of so many processes; three make all runs only where slow tests want them."""
    made: dict[int, Made] = {}
    slow = any(item.get_closest_marker("slow") for item in request.session.items if item.path.parent == TESTS / "distributed")
    some = {3: [] if slow else sorted(ON_THREE)}

    def of_size(size: int) -> Made:
        if size not in made:
            folder = tmp_path_factory.mktemp(f"world-{size}")
            begun_by_one(folder)
            if size > 2:
                shutil.copytree(of_size(2).folder / "shards", folder / "shards of two")
            codes = forked(forking, size, folder, "distributed.process", [str(folder), *some.get(size, [])])
            said = "\n".join((folder / f"said-{rank}.txt").read_text() for rank in range(size))
            assert codes == [0] * size, said
            found = [torch.load(folder / f"rank-{rank}.pt", weights_only=False) for rank in range(size)]
            made[size] = Made(size, folder, found)
        return made[size]

    return of_size


def begun_by_one(folder: Path) -> None:
    """A run that one process stops half way, for the others to go on with."""
    from distributed.runs import everything_on
    from distributed.sharding import half_of, penalties

    whole = penalties(2)
    whole.run.set_folder(folder / "whole")
    half_of(whole)
    trainer = everything_on(2)
    trainer.run.set_folder(folder / "begun")
    updates = trainer.updates()
    for update in updates:
        if update.step == 2:
            break
    updates.close()


@pytest.fixture(scope="session")
def alone() -> Callable[[Build, int], dict[str, Any]]:
    """The same run on one process, with so many micro-batches in a batch."""
    from distributed.recorded import recorded

    made: dict[tuple[Build, int], dict[str, Any]] = {}

    def run(build: Build, cycle: int) -> dict[str, Any]:
        if (build, cycle) not in made:
            made[build, cycle] = recorded(build(cycle))
        return made[build, cycle]

    return run
