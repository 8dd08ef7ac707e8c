"""A file is the old one or the new one, and on the disk when that is said."""

import fcntl
import os
import sys
from pathlib import Path

import pytest

from instep.checkpoint.durable import replace_file, save_as, write_beside
from instep.errors import CheckpointError
from instep.run.history import HistoryFile


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    for content in (b"old", b"new"):
        replace_file(path, content)
        assert path.read_bytes() == content
    assert os.listdir(tmp_path) == ["a.json"]


def test_after_an_error_the_old_file_is_there_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    replace_file(path, b"old")
    with pytest.raises(KeyboardInterrupt), write_beside(path) as beside:
        beside.write_bytes(b"ne")
        raise KeyboardInterrupt
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a.json"]


def test_what_is_written_beside_has_the_ending(tmp_path: Path) -> None:
    with save_as(tmp_path / "a.pt2") as beside:
        assert beside.suffix == ".pt2"
        beside.write_bytes(b"")


def test_paths_that_cannot_be_files(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"is a folder; name a file in it, like .*model\.safetensors"), save_as(tmp_path):
        pass
    with (
        pytest.raises(CheckpointError, match=r"there is no folder .*absent; make it first"),
        save_as(tmp_path / "absent" / "a.pt"),
    ):
        pass
    with pytest.raises(CheckpointError, match=r"a\.pt cannot be written: No space left on device"), save_as(tmp_path / "a.pt"):
        raise OSError(28, "No space left on device")


def test_macos_waits_for_the_drive_and_not_for_its_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(fcntl, "F_FULLFSYNC", 51, raising=False)
    monkeypatch.setattr(fcntl, "fcntl", lambda descriptor, command: asked.append(command))
    replace_file(tmp_path / "a", b"")
    assert asked == [51]
    with save_as(tmp_path / "b") as beside:
        beside.write_bytes(b"")
    assert asked == [51] * 3  # the file and its folder
    history = HistoryFile(tmp_path / "c")
    history.append({"step": 1})
    history.sync()
    assert asked == [51] * 5  # the file, and the first time its folder
