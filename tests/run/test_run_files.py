"""The files of a run folder: a description is read whole or not at all, and replaced whole."""

import os
from pathlib import Path

import pytest

from instep.errors import FolderError
from instep.run.run_files import DESCRIPTION, find_runs, read_description, read_run, write_description


def test_a_description_comes_back(tmp_path: Path) -> None:
    assert read_description(tmp_path) is None
    for content in ({"title": "é", "lr": 0.1}, {"title": "b"}):
        write_description(tmp_path, content)
        assert read_description(tmp_path) == content
    assert os.listdir(tmp_path) == [DESCRIPTION]
    assert (tmp_path / DESCRIPTION).read_text() == '{\n  "title": "b"\n}\n'


@pytest.mark.parametrize(
    ("content", "said"),
    [(b"{", "cannot be read: Expecting property name"), (b"\xff", "cannot be read"), (b"[1]", "is not a JSON object")],
)
def test_one_that_is_damaged(tmp_path: Path, content: bytes, said: str) -> None:
    """Who goes on with a run stops there; who looks at it sees the rest."""
    (tmp_path / DESCRIPTION).write_bytes(content)
    with pytest.raises(FolderError, match=rf"run\.json {said}"):
        read_description(tmp_path)
    run = read_run(tmp_path)
    assert run.description == {}
    assert run.problems[0].startswith(f"{DESCRIPTION} {said}")
    assert run.problems[1] == "history.jsonl is missing"


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(FolderError, match=r"run\.json cannot be written: No such file or directory"):
        write_description(tmp_path / "gone", {})


def test_a_run_inside_a_run_is_its_own(tmp_path: Path) -> None:
    for name in ("b", "a/c", "b/inner"):
        (tmp_path / name).mkdir(parents=True)
        write_description(tmp_path / name, {})
    assert find_runs(tmp_path) == [tmp_path / "a" / "c", tmp_path / "b"]
