"""Trouble with the disk is said clearly, older checkpoints stay whole, and nothing half-written is left behind."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from checkpoint.made import in_a_child, shelf_of, small
from instep.checkpoint import Checkpoint, Writer, read, read_newest, steps, verify, write
from instep.errors import CheckpointError
from small_disk import fill, small_disk


def large(step: int) -> Checkpoint:
    return Checkpoint(step, {"model": {"w": torch.zeros(200_000)}})  # 0.8 MB


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk", megabytes=2) as place:
        yield place


def test_a_full_disk(disk: Path) -> None:
    folder = disk / "checkpoints"
    writer = Writer(folder)
    writer.save(large(1))
    writer.save(large(2))
    writer.save(large(3))
    full = r"step-00000003 could not be written: the disk of .* is full \([78]\d\d kB are needed, [\d.]+ k?B are free\)"
    with pytest.raises(
        CheckpointError, match=full + ".* or keep fewer .*, and start again: the run goes on .* before it are whole"
    ):
        writer.wait()
    assert names(folder) == ["LATEST", "step-00000001", "step-00000002"]
    assert (folder / "LATEST").read_text() == "step-00000002\n"
    newest, skipped = read_newest(folder)
    assert newest is not None
    assert (newest.step, skipped) == (2, [])
    verify(folder / "step-00000001")

    shutil.rmtree(folder / "step-00000001")  # and with room again, it goes on
    writer.save(large(4))
    writer.close()
    assert steps(folder) == [2, 4]


def test_a_disk_that_is_full_to_the_last_byte(disk: Path) -> None:
    """Not even the names of the labels fit; the checkpoint before is found all the same."""
    folder = shelf_of(disk / "checkpoints", 1)
    fill(disk)
    with pytest.raises(CheckpointError, match=r"step-00000002 could not be written: the disk of .* is full"):
        write(folder, small(2))
    assert names(folder) == ["LATEST", "step-00000001"]
    assert read(folder / "step-00000001").step == 1


def test_a_disk_that_becomes_read_only(disk: Path) -> None:
    folder = disk / "checkpoints"
    writer = Writer(folder)
    writer.save(small(1))
    writer.wait()
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    writer.save(small(2))
    with pytest.raises(
        CheckpointError, match=r"step-00000002 could not be written: .* is on a read-only file system. Use another folder="
    ):
        writer.wait()
    with pytest.raises(CheckpointError, match=r"checkpoints cannot be written: .* is on a read-only file system"):
        Writer(folder)
    assert read(folder / "step-00000001").step == 1


def test_permission_denied(tmp_path: Path) -> None:
    folder = shelf_of(tmp_path / "checkpoints", 1)
    folder.chmod(0o555)

    def as_nobody() -> None:
        """Root may do anything, so somebody else tries; the way to the folder must be open to them."""
        os.chdir(folder)
        if os.getuid() == 0:
            os.setgid(65534)
            os.setuid(65534)
        here = Path()
        with pytest.raises(
            CheckpointError, match=r"checkpoints cannot be written: this user may not write to .*Change its permissions"
        ):
            Writer(here)
        with pytest.raises(CheckpointError, match="step-00000002 could not be written: this user may not write"):
            write(here, small(2))
        assert read(here / "step-00000001").step == 1

    assert in_a_child(as_nobody) == 0
    folder.chmod(0o755)
    assert names(folder) == ["LATEST", "step-00000001"]


def test_a_folder_that_vanishes(tmp_path: Path) -> None:
    folder = tmp_path / "run" / "checkpoints"
    writer = Writer(folder)
    writer.save(small(1))
    writer.wait()
    shutil.rmtree(tmp_path / "run")
    writer.save(small(2))
    with pytest.raises(CheckpointError, match=r"step-00000002 could not be written: .* is gone; was it deleted or unmounted"):
        writer.wait()
    assert not (tmp_path / "run").exists()


def test_a_file_in_place_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "checkpoints").write_text("in the way")
    with pytest.raises(CheckpointError, match=r"cannot be written: .* is not a folder. Move away what has its name"):
        Writer(tmp_path / "checkpoints")
    with pytest.raises(CheckpointError, match="is not a folder"):
        Writer(tmp_path / "checkpoints" / "below")


def test_labels_that_cannot_be_written_do_not_harm_the_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "LATEST").mkdir()
    with pytest.raises(CheckpointError, match="checkpoint step-00000001 is whole, but not what is beside it"):
        write(tmp_path, small(1))
    newest, _ = read_newest(tmp_path)
    assert newest is not None
    assert newest.step == 1
