"""Memory that an update frees is kept for the next one, while a run trains on a CPU."""

import os
import platform
from collections.abc import Iterator
from multiprocessing import Pipe, get_context
from multiprocessing.connection import Connection
from pathlib import Path

import pytest
import torch

from instep import Trainer
from instep.loop import freed_memory
from instep.loop.freed_memory import LARGEST_MMAP, LARGEST_TRIM, MMAP_THRESHOLD, NEVER, TRIM_THRESHOLD, keep_freed_memory
from programs import Programs

CPU = torch.device("cpu")
Calls = list[tuple[int, int]]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Iterator[Calls]:
    """What the allocator is told."""
    made: Calls = []
    monkeypatch.setattr(freed_memory, "_mallopt", lambda: lambda option, value: made.append((option, value)))
    yield made
    assert freed_memory._trainings.count == 0


def test_inside_nothing_is_handed_back_and_afterwards_it_is(calls: Calls) -> None:
    with pytest.raises(KeyError), keep_freed_memory(CPU):
        assert calls == [(MMAP_THRESHOLD, LARGEST_MMAP), (TRIM_THRESHOLD, NEVER)]
        raise KeyError
    assert calls[2:] == [(TRIM_THRESHOLD, LARGEST_TRIM)]


def test_two_trainings_in_one_process(calls: Calls) -> None:
    with keep_freed_memory(CPU):
        with keep_freed_memory(CPU):
            pass
        assert (TRIM_THRESHOLD, LARGEST_TRIM) not in calls  # the other one goes on
    assert calls[-1] == (TRIM_THRESHOLD, LARGEST_TRIM)


def test_an_accelerator_has_memory_of_its_own(calls: Calls) -> None:
    with keep_freed_memory(torch.device("meta")):
        pass
    assert calls == []


@pytest.mark.parametrize(
    ("name", "value"), [("MALLOC_TRIM_THRESHOLD_", "131072"), ("GLIBC_TUNABLES", "glibc.rtld.x=1:glibc.malloc.trim_threshold=1")]
)
def test_what_the_user_has_set_stays(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, value)
    assert freed_memory._mallopt() is None


def test_other_c_libraries_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def confstr(name: str) -> str:
        raise ValueError("unrecognized configuration name")

    monkeypatch.setattr(os, "confstr", confstr)
    assert freed_memory._mallopt() is None


def _report(connection: Connection, calls: Calls, training: Iterator[None]) -> None:
    for _ in training:  # leaves the one that it was forked from
        pass
    with keep_freed_memory(CPU):
        pass
    connection.send((list(calls), freed_memory._trainings.count))


def _train() -> Iterator[None]:
    with keep_freed_memory(CPU):
        yield


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes cannot be forked here")
def test_a_forked_process_hands_memory_back(calls: Calls) -> None:
    here, there = Pipe()
    training = _train()
    next(training)
    worker = get_context("fork").Process(target=_report, args=(there, calls, training))
    worker.start()
    there.close()
    told, count = here.recv()
    worker.join()
    begin, end = [(MMAP_THRESHOLD, LARGEST_MMAP), (TRIM_THRESHOLD, NEVER)], [(TRIM_THRESHOLD, LARGEST_TRIM)]
    assert told == [*begin, *end, *begin, *end]  # told at the fork; then a training of its own
    assert count == 0
    assert calls == begin
    assert not list(training)
    assert calls == [*begin, *end]


def test_a_run_keeps_it_and_lets_go(calls: Calls) -> None:
    model = torch.nn.Linear(2, 1)
    x = torch.zeros(8, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    trainer = Trainer(
        model, loss=torch.nn.functional.mse_loss, optimizer=optimizer, train=(x, x[:, :1]), epochs=2, batch_size=4, progress=False
    )
    for update in trainer.updates():
        assert calls == [(MMAP_THRESHOLD, LARGEST_MMAP), (TRIM_THRESHOLD, NEVER)]
        if update.step == 1:
            break
    assert calls[2:] == [(TRIM_THRESHOLD, LARGEST_TRIM)]
    trainer.fit()
    assert len(calls) == 6


FAULTS = """
import ctypes, resource, torch
from contextlib import nullcontext
from instep.loop.freed_memory import keep_freed_memory

libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
SIZE = 30 << 20

def faults():  # four blocks at the top of the heap, more than glibc keeps by itself
    blocks = [ctypes.c_void_p(libc.malloc(ctypes.c_size_t(SIZE))) for _ in range(4)]
    for block in blocks:
        libc.memset(block, 0, ctypes.c_size_t(SIZE))
    for block in reversed(blocks):
        libc.free(block)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

for around in (nullcontext(), keep_freed_memory(torch.device("cpu"))):
    with around:
        counts = [faults() for _ in range(6)]
        print(min(b - a for a, b in zip(counts, counts[1:])))
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc can be told")
def test_the_same_pages_serve_again(programs: Programs, tmp_path: Path) -> None:
    """120 MB are 30,000 pages of 4 KB."""
    script = tmp_path / "faults.py"
    script.write_text(FAULTS, encoding="utf-8")
    unset = {name: value for name, value in os.environ.items() if "MALLOC" not in name and name != "GLIBC_TUNABLES"}
    ended = programs.run([str(script)], env=unset)
    assert ended.returncode == 0, ended.stderr
    given_back, kept = map(int, ended.stdout.split())
    if given_back < 1_000:
        pytest.skip("the system hands out large pages")
    assert kept < given_back / 10
