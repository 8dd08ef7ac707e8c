"""The folder of checkpoints: what is in it, what is kept, what its labels say, and how it is tidied up."""

import os
from pathlib import Path

import pytest

from checkpoint.made import shelf_of, small
from instep.checkpoint import Checkpoint, Writer, locate, read, read_newest, steps, write
from instep.errors import CheckpointError


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def label(folder: Path, name: str) -> str:
    return (folder / name).read_text()


def test_checkpoints_are_found_by_their_names(tmp_path: Path) -> None:
    folder = shelf_of(tmp_path, 3, 12)
    for other in ("step-3", "step-0000000x", "step-000000005", "notes.txt", ".aside-what", "step-" + "9" * 40):
        (folder / other).mkdir()
    assert steps(folder) == [3, 12]
    assert steps(tmp_path / "nowhere") == []


def test_the_files_of_a_checkpoint(tmp_path: Path) -> None:
    folder = shelf_of(tmp_path, 1200)
    assert names(folder) == ["LATEST", "step-00001200"]
    assert names(folder / "step-00001200") == ["MANIFEST.json", "model.safetensors", "optimizer.safetensors", "state.json"]
    assert label(folder, "LATEST") == "step-00001200\n"


def test_a_part_without_tensors_has_an_empty_file(tmp_path: Path) -> None:
    path = write(tmp_path, Checkpoint(1, {"optimizer": {"lr": 0.1}}))
    assert (path / "optimizer.safetensors").exists()
    assert read(path).parts == {"optimizer": {"lr": 0.1}}


def test_the_last_ones_and_the_best_are_kept(tmp_path: Path) -> None:
    for step in range(1, 8):
        write(tmp_path, small(step, best=2 if step >= 2 else None), keep=3)
    assert steps(tmp_path) == [2, 5, 6, 7]
    assert label(tmp_path, "BEST") == "step-00000002\n"
    assert label(tmp_path, "LATEST") == "step-00000007\n"


def test_each_kept_checkpoint_finds_the_best_it_knows(tmp_path: Path) -> None:
    """If the newest turns out damaged, the run goes on from the one before, whose best is an older one."""
    for step, best in ((1, 1), (2, 1), (3, 1), (4, 4)):
        write(tmp_path, small(step, best=best), keep=2)
    assert steps(tmp_path) == [1, 3, 4]
    write(tmp_path, small(5, best=4), keep=2)
    assert steps(tmp_path) == [4, 5]


def test_keeping_one_keeps_the_newest(tmp_path: Path) -> None:
    for step in (1, 2):
        write(tmp_path, small(step), keep=1)
    assert steps(tmp_path) == [2]


def test_checkpoints_are_located(tmp_path: Path) -> None:
    folder = shelf_of(tmp_path, 1, 2, 3, best=2)
    assert [locate(folder, which).name[-1] for which in ("latest", "best", 1)] == ["3", "2", "1"]


def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="has no checkpoint 'latest'; it has none"):
        locate(tmp_path, "latest")
    shelf_of(tmp_path, 1, 2)
    with pytest.raises(CheckpointError, match="has no checkpoint 7; it has 1, 2"):
        locate(tmp_path, 7)
    with pytest.raises(CheckpointError, match="has no checkpoint 'best'; it has 1, 2"):
        locate(tmp_path, "best")


def test_the_same_step_can_be_written_again(tmp_path: Path) -> None:
    shelf_of(tmp_path, 1, 2)
    write(tmp_path, Checkpoint(2, {"model": {"new": 1}}))
    assert read(locate(tmp_path, 2)).parts == {"model": {"new": 1}}
    assert names(tmp_path) == ["LATEST", "step-00000001", "step-00000002"]


def test_a_checkpoint_that_was_being_replaced_is_found(tmp_path: Path) -> None:
    shelf_of(tmp_path, 1, 2)
    os.rename(tmp_path / "step-00000002", tmp_path / ".aside-step-00000002")  # and here the process died
    newest, skipped = read_newest(tmp_path)
    assert newest is not None
    assert (newest.step, skipped, steps(tmp_path)) == (2, [], [1, 2])
    Writer(tmp_path)
    assert names(tmp_path) == ["LATEST", "step-00000001", "step-00000002"]


def test_leftovers_are_tidied_up(tmp_path: Path) -> None:
    shelf_of(tmp_path, 1, 2, best=1)
    for left in (".writing-step-00000003-99-ab", ".gone-step-00000000-ab", ".aside-step-00000002"):
        (tmp_path / left).mkdir()
        (tmp_path / left / "model.safetensors").write_bytes(b"half")
    (tmp_path / ".writing-LATEST-ab").write_text("step-0")
    (tmp_path / "LATEST").write_text("step-00000001\n")  # the process died before it could be renewed
    (tmp_path / "BEST").unlink()
    (tmp_path / ".DS_Store").write_text("not ours")
    Writer(tmp_path)
    assert names(tmp_path) == [".DS_Store", "BEST", "LATEST", "step-00000001", "step-00000002"]
    assert (label(tmp_path, "LATEST"), label(tmp_path, "BEST")) == ("step-00000002\n", "step-00000001\n")


def test_what_a_run_goes_back_from_is_moved_out_of_the_way(tmp_path: Path) -> None:
    shelf_of(tmp_path, 1, 2, 3)
    (tmp_path / "step-00000003" / "state.json").write_bytes(b"torn")
    (tmp_path / "passed-over-step-00000003").mkdir()  # not the first time
    newest, skipped = read_newest(tmp_path)
    assert newest is not None
    assert (newest.step, [one.path.name for one in skipped]) == (2, ["step-00000003"])
    assert "state.json has 4 bytes, not" in skipped[0].reason
    write(tmp_path, small(2), keep=2)
    assert names(tmp_path) == ["LATEST", "passed-over-step-00000003", "step-00000001", "step-00000002"]
    assert (tmp_path / "passed-over-step-00000003" / "MANIFEST.json").exists()
    assert label(tmp_path, "LATEST") == "step-00000002\n"


def test_where_all_are_damaged_nothing_begins_again_by_itself(tmp_path: Path) -> None:
    shelf_of(tmp_path, 1, 2)
    for step in (1, 2):
        (tmp_path / f"step-0000000{step}" / "MANIFEST.json").unlink()
    with pytest.raises(
        CheckpointError, match=r"none of the 2 checkpoints in .* can be used:\n.*00002 is not complete: MANIFEST.json is missing"
    ):
        read_newest(tmp_path)


def test_where_there_is_none_there_is_none(tmp_path: Path) -> None:
    assert read_newest(tmp_path) == (None, [])
    assert read_newest(tmp_path / "nowhere") == (None, [])
