"""kill -9 at any moment leaves the newest complete checkpoint usable, and what was left behind is cleaned up."""

import os
import random
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from checkpoint.made import in_a_child, same, small
from instep.checkpoint import Checkpoint, Writer, blocks, locate, read, read_newest, steps, write
from instep.errors import CheckpointError

pytestmark = pytest.mark.skipif(os.name == "nt", reason="needs fork")


@pytest.fixture
def quick_path() -> Iterator[Path]:
    """A folder in memory where there is one: hundreds of syncs take seconds on a disk, and here nothing depends on them."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as folder:
        yield Path(folder)


def dies_at(number: int, do: Callable[[], None]) -> bool:
    """Whether the process died, as by kill -9, just before its `number`-th change to the disk. No cleaning up happens."""
    count = 0

    def counted(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            nonlocal count
            if count == number:
                os._exit(77)
            count += 1
            return real(*arguments, **options)

        return call

    def child() -> None:
        for name in ("mkdir", "rename", "replace", "unlink", "rmdir", "fsync"):
            setattr(os, name, counted(getattr(os, name)))
        blocks._write_all = counted(blocks._write_all)
        do()

    code = in_a_child(child)
    assert code in (0, 77)
    return code == 77


def scenarios() -> Iterator[tuple[str, Callable[[Path], None], Callable[[Path], None], set[int]]]:
    """Name, what is there before, what is done when the process dies, and which steps may then be the newest."""

    def one(folder: Path) -> None:
        write(folder, small(1))

    def several(folder: Path) -> None:
        for step in (1, 2, 3):
            write(folder, small(step, best=1))

    yield "a second one", one, lambda folder: void(write(folder, small(2))), {1, 2}
    yield "the same one again", one, lambda folder: void(write(folder, small(1))), {1}
    yield "one that makes others go", several, lambda folder: void(write(folder, small(4, best=4), keep=1)), {3, 4}
    yield "tidying up", half_written, lambda folder: void(Writer(folder)), {2}


def void(value: object) -> None:
    del value


def half_written(folder: Path) -> None:
    for step in (1, 2):
        write(folder, small(step))
    os.rename(folder / "step-00000002", folder / ".aside-step-00000002")
    shutil.copytree(folder / "step-00000001", folder / ".writing-step-00000003-1-ab")
    shutil.copytree(folder / "step-00000001", folder / ".gone-step-00000000-ab")


@pytest.mark.parametrize(
    ("name", "before", "do", "allowed"), list(scenarios()), ids=lambda value: value if isinstance(value, str) else ""
)
def test_killed_before_any_change_to_the_disk(
    name: str, before: Callable[[Path], None], do: Callable[[Path], None], allowed: set[int], quick_path: Path
) -> None:
    tmp_path = quick_path
    newest_at: list[int] = []
    template = tmp_path / "template"
    template.mkdir()
    before(template)
    for number in range(200):
        folder = tmp_path / str(number)
        shutil.copytree(template, folder)
        died = dies_at(number, lambda folder=folder: do(folder))  # type: ignore[misc]
        newest, skipped = read_newest(folder)
        assert newest is not None
        assert not skipped
        assert newest.step in allowed
        assert same(newest.parts, dict(small(newest.step).parts))
        newest_at.append(newest.step)
        Writer(folder).close()
        assert not [path.name for path in folder.iterdir() if path.name.startswith(".")]
        assert (folder / "LATEST").read_text() == f"step-{newest.step:08d}\n"
        if newest.best is not None:
            assert read(locate(folder, "best")).step == newest.best
        shutil.rmtree(folder)
        if not died:
            break
    assert not died
    assert len(newest_at) > 3
    assert newest_at == sorted(newest_at)  # once the new one is there, it stays


def write_for_ever(folder: Path, acknowledge: int) -> None:
    """A run with 4 MB of state that saves as fast as it can; each step that is surely on the disk is told to the parent."""
    torch.set_num_threads(1)
    with Writer(folder, keep=2) as writer:
        first = steps(folder)[-1] + 1 if steps(folder) else 1
        for step in range(first, 10_000):
            writer.save(
                Checkpoint(step, {"model": {"w": torch.full((1 << 20,), float(step))}}, {"step": step}, best=step // 5 * 5 or 1)
            )
            if step % 3 == 0:
                writer.wait()
                os.write(acknowledge, step.to_bytes(4, "little"))


def kill_again_and_again(folder: Path, times: int) -> None:
    chance = random.Random(times)
    told = 0
    for _ in range(times):
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reading)
            try:
                write_for_ever(folder, writing)
            finally:
                os._exit(1)
        os.close(writing)
        told = int.from_bytes(os.read(reading, 4), "little") or told  # it is under way
        time.sleep(chance.uniform(0.0, 0.1))
        os.kill(pid, signal.SIGKILL)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
        while rest := os.read(reading, 4):
            told = int.from_bytes(rest, "little")
        os.close(reading)
        newest, skipped = read_newest(folder)
        assert newest is not None
        assert not skipped
        assert newest.step >= told
        assert newest.state == {"step": newest.step}
        assert torch.all(newest.parts["model"]["w"] == newest.step)
        assert read(locate(folder, "best")).step == newest.best


def test_killed_at_random_moments(tmp_path: Path) -> None:
    kill_again_and_again(tmp_path / "checkpoints", 6)


@pytest.mark.slow
def test_killed_at_many_random_moments(tmp_path: Path) -> None:
    kill_again_and_again(tmp_path / "checkpoints", 200)


def test_a_script_that_ends_without_closing_still_has_its_checkpoint(tmp_path: Path) -> None:
    def script() -> None:
        Writer(tmp_path).save(Checkpoint(5, {"model": {"w": torch.ones(1 << 22)}}))
        threading._shutdown()  # type: ignore[attr-defined]  # what the interpreter does at its end: waits for threads

    assert in_a_child(script) == 0
    assert read(tmp_path / "step-00000005").step == 5


def test_an_error_leaves_no_leftovers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, small(1))

    def rename(old: Path, new: Path) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "rename", rename)
    with pytest.raises(CheckpointError, match=r"step-00000002 could not be written: Input/output error .* before it are whole"):
        write(tmp_path, small(2))
    monkeypatch.undo()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["LATEST", "step-00000001"]


def test_a_replacement_that_fails_leaves_the_old_one_in_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, small(1))
    real = os.rename

    def rename(old: Path, new: Path) -> None:
        if Path(old).name.startswith(".writing"):
            raise OSError(5, "Input/output error")
        real(old, new)

    monkeypatch.setattr(os, "rename", rename)
    with pytest.raises(CheckpointError, match="Input/output error"):
        write(tmp_path, small(1))
    monkeypatch.undo()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["LATEST", "step-00000001"]
    assert read(tmp_path / "step-00000001").step == 1
