"""The table of runs."""

from pathlib import Path

import pytest

import told
from instep.errors import DescriptionError
from instep.report.runs import render
from instep.run.lock import Lock

NOW_S = told.CREATED.timestamp() + 3 * 3600


def without_sizes(text: str) -> list[str]:
    lines = text.splitlines()
    return [line[: lines[0].index("     size")].rstrip() for line in lines]


def test_runs_are_a_table(tmp_path: Path) -> None:
    told.run_folder(tmp_path / "digits")
    told.run_folder(tmp_path / "sweep" / "a", state="interrupted", epochs=1)
    told.run_folder(tmp_path / "sweep" / "b", state="running", epochs=0)
    (tmp_path / "no run").mkdir()
    assert without_sizes(render(tmp_path, now_s=NOW_S)) == [
        "run      state        step     of  best                   age",
        "digits   finished      360  1,200  valid/accuracy 0.5900  3 h",
        "sweep/a  interrupted   120  1,200  valid/accuracy 0.5300  3 h",
        "sweep/b  unfinished      0  1,200                         3 h",
    ]


def test_a_run_that_trains_now_is_running(tmp_path: Path) -> None:
    run = told.run_folder(tmp_path / "digits", state="running", epochs=1)
    lock = Lock(run)
    lock.take()
    assert " running " in render(tmp_path)
    lock.release()
    assert " unfinished " in render(tmp_path)


def test_a_run_within_its_first_epoch_has_no_history(tmp_path: Path) -> None:
    run = told.run_folder(tmp_path / "new", state="interrupted", epochs=0)
    (run / "history.jsonl").unlink()
    assert "history" not in render(tmp_path)


def test_sizes_are_those_of_all_files(tmp_path: Path) -> None:
    run = told.run_folder(tmp_path / "digits")
    (run / "checkpoints").mkdir()
    (run / "checkpoints" / "model.safetensors").write_bytes(bytes(2_500_000))
    assert render(tmp_path).endswith(" 2.51 MB")


def test_a_folder_that_is_a_run_is_listed_alone(tmp_path: Path) -> None:
    run = told.run_folder(tmp_path / "digits")
    told.run_folder(run / "checkpoints" / "not another run")
    head, row = render(run).splitlines()
    assert head.startswith("run ")
    assert row.startswith(f"{run} ")


def test_what_cannot_be_read_is_said_under_the_table(tmp_path: Path) -> None:
    told.run_folder(tmp_path / "good")
    (told.run_folder(tmp_path / "bad") / "run.json").write_text('{"title": ', encoding="utf-8")
    (told.run_folder(tmp_path / "old") / "history.jsonl").unlink()
    with (told.run_folder(tmp_path / "torn") / "history.jsonl").open("a") as file:
        file.write('{"kind"')
    lines = render(tmp_path, now_s=NOW_S).splitlines()
    assert [line.split()[:3] for line in lines[1:5]] == [
        ["bad", "unknown", "360"],
        ["good", "finished", "360"],
        ["old", "finished", "360"],
        ["torn", "finished", "360"],
    ]
    assert lines[5:] == [
        "",
        "bad: run.json cannot be read: Expecting value: line 1 column 11 (char 10)",
        "old: history.jsonl is missing",
        "torn: history.jsonl: the last line is torn and left out",
    ]


def test_no_runs(tmp_path: Path) -> None:
    assert render(tmp_path) == f"no runs in {tmp_path}"
    with pytest.raises(DescriptionError, match=r"there is no folder .*/nowhere; `instep train` makes runs/, or name another"):
        render(tmp_path / "nowhere")
