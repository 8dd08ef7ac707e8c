"""`instep report`."""

import json
import re
import webbrowser
from pathlib import Path
from typing import Any

import pytest

from cli.recorded import trained
from cli.said import Instep

pytestmark = pytest.mark.usefixtures("build_file")


def held(page: Path) -> dict[str, Any]:
    """The document in a page."""
    found = re.search('<script type="application/json" id="document">(.*?)</script>', page.read_text(), re.DOTALL)
    assert found is not None
    document: dict[str, Any] = json.loads(found[1])
    return document


def test_a_run_becomes_a_page_in_its_folder(instep: Instep) -> None:
    run = trained(instep, "--lr", "0.2")
    said = instep("report", "runs/my")
    assert said.code == 0, said.err
    page = run / "report.html"
    assert re.fullmatch(r"report: runs/my/report\.html \(\d+\.?\d* kB\)\n", said.out)
    assert held(page)["runs"][0]["command"].endswith("my.py --lr 0.2 --new")
    assert held(page)["runs"][0]["samples"] is None
    assert instep("report", "runs/my").code == 0  # its own page is replaced


def test_several_runs_become_one_page_here(instep: Instep) -> None:
    trained(instep)
    trained(instep, "--lr", "0.2", folder="runs/other")
    said = instep("report", "runs/my", "runs/other")
    assert said.code == 0, said.err
    found = held(Path("report.html"))
    assert [run["name"] for run in found["runs"]] == ["my", "other"]
    assert ["hyper_parameters.lr", "0.1", "0.2"] in found["comparison"]["settings"]


def test_samples_come_from_the_file(instep: Instep) -> None:
    trained(instep)
    said = instep("report", "runs/my", "-o", "page.html", "--samples")
    assert said.code == 0, said.err
    (run,) = held(Path("page.html"))["runs"]
    losses = [one["loss"] for one in run["samples"]]
    assert losses == sorted(losses, reverse=True)
    assert len(losses) == 4
    assert run["matrices"].keys() == {"valid"}
    assert [one["name"] for one in run["preview"]["sets"]] == ["train", "valid"]


def test_the_browser_is_opened_where_that_was_asked_for(instep: Instep, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    run = trained(instep)
    assert instep("report", "runs/my").code == 0
    assert opened == []
    assert instep("report", "runs/my", "--open").code == 0
    assert opened == [(run / "report.html").resolve().as_uri()]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "say which run: instep report runs/train; `instep runs` lists them."),
        (["nowhere"], "nowhere does not exist; `instep runs` lists the runs there are."),
        (["empty"], "empty is not a run: it has neither run.json nor history.jsonl."),
        (["runs"], "runs is not a run, but holds some; name them: instep report runs/my"),
        (["runs/my", "-o", "empty"], "empty is a folder; name a file in it: -o empty/report.html"),
        (["runs/my", "-o", "no/page.html"], "no does not exist, so no/page.html cannot be written; make that folder first."),
        (["runs/my", "-o", "my.py"], "my.py exists and is not a report of Instep; name another file with -o."),
    ],
)
def test_what_cannot_be_done_is_said(instep: Instep, arguments: list[str], words: str) -> None:
    Path("empty").mkdir()
    Path("runs/my").mkdir(parents=True)
    Path("runs/my/run.json").write_text("{}")
    said = instep("report", *arguments)
    assert said.code == 2
    assert said.err == f"instep: {words}\n"


def test_a_file_that_cannot_be_written_is_said(instep: Instep, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("runs/my").mkdir(parents=True)
    Path("runs/my/run.json").write_text("{}")

    def full(*arguments: object, **options: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    said = instep("report", "runs/my")
    assert (said.code, said.err) == (2, "instep: runs/my/report.html cannot be written: No space left on device.\n")
