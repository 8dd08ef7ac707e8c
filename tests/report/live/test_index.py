"""Which runs a server has, and that there is no way to others."""

import json
import os
import time
from pathlib import Path

import pytest

import told
from instep.report.live import index as module
from instep.report.live.index import Index


def test_runs_are_named_by_where_they_are(tmp_path: Path) -> None:
    one = told.run_folder(tmp_path / "runs" / "a")
    told.run_folder(tmp_path / "runs" / "deep" / "b")
    index = Index(tmp_path / "runs")
    assert [line["name"] for line in index.lines()] == ["a", "deep/b"]
    assert index.path("a") == one.resolve()


def test_a_line_says_how_far_a_run_is(tmp_path: Path) -> None:
    told.run_folder(tmp_path / "a", hyper_parameters={"lr": 0.1, "sizes": [1, 2]})
    (line,) = Index(tmp_path).lines()
    assert (line["state"], line["step"], line["end"], line["monitor"]) == ("finished", 360, 1200, "valid/accuracy")
    assert line["hyper_parameters"] == {"lr": 0.1, "sizes": "[1, 2]"}
    assert line["numbers"]["loss"] == pytest.approx(1.64)
    assert line["numbers"]["valid/accuracy"] == pytest.approx(0.59)


def test_a_run_that_writes_is_running_and_one_that_is_silent_unfinished(tmp_path: Path) -> None:
    run = told.run_folder(tmp_path / "a", state="running")
    index = Index(tmp_path)
    assert index.lines()[0]["state"] == "running"
    long_ago = time.time() - 1000
    os.utime(run / "history.jsonl", (long_ago, long_ago))
    assert index.lines()[0]["state"] == "unfinished"


@pytest.mark.parametrize(
    "name",
    [
        "..",
        "../secret",
        "a/../../secret",
        "/etc",
        "%2e%2e/secret",
        "..%2fsecret",
        "a\\..\\..\\secret",
        "",
        ".",
        "a/",
        "a/checkpoints",
    ],
)
def test_there_is_no_way_out(tmp_path: Path, name: str) -> None:
    told.run_folder(tmp_path / "secret")
    told.run_folder(tmp_path / "runs" / "a")
    index = Index(tmp_path / "runs")
    assert index.path(name) is None
    assert index.stamp(name) == ()


def test_links_lead_nowhere(tmp_path: Path) -> None:
    secret = told.run_folder(tmp_path / "secret")
    runs = tmp_path / "runs"
    told.run_folder(runs / "a")
    (runs / "linked").symlink_to(secret)
    for name in ("history.jsonl", "run.json", "findings.json", "checkpoints"):
        run = told.run_folder(runs / f"with-{name}")
        (run / name).unlink(missing_ok=True)
        (run / name).symlink_to(secret / name)
    index = Index(runs)
    assert [line["name"] for line in index.lines()] == ["a"]
    assert index.path("linked") is None
    assert index.path("with-history.jsonl") is None


def test_a_run_that_becomes_a_link_is_gone(tmp_path: Path) -> None:
    secret = told.run_folder(tmp_path / "secret")
    run = told.run_folder(tmp_path / "runs" / "a")
    index = Index(tmp_path / "runs")
    assert index.path("a") is not None
    run.rename(tmp_path / "runs" / "moved")
    run.symlink_to(secret)
    assert index.path("a") is None


def test_new_runs_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOOK_EVERY_S", 0.0)
    index = Index(tmp_path)
    assert index.lines() == []
    told.run_folder(tmp_path / "a")
    assert len(index.lines()) == 1


def test_only_the_end_of_a_history_is_read(tmp_path: Path) -> None:
    run = told.run_folder(tmp_path / "a")
    rows = [{"kind": "update", "step": step, "epoch": 0, "loss": float(step), "lr": 0.1} for step in range(1, 5_001)]
    (run / "history.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows) + '{"kind": "upd')
    (line,) = Index(tmp_path).lines()
    assert (line["step"], line["numbers"]["loss"]) == (5_000, 5_000.0)


@pytest.mark.parametrize("text", ["", "[]", "{", '{"status": 3, "hyper_parameters": [], "total_steps": "x"}'])
def test_a_damaged_description_is_a_line_all_the_same(tmp_path: Path, text: str) -> None:
    run = told.run_folder(tmp_path / "a")
    (run / "run.json").write_text(text)
    (line,) = Index(tmp_path).lines()
    assert (line["state"], line["end"], line["hyper_parameters"]) == ("unknown", None, {})
