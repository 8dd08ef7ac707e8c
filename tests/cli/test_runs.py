"""`instep show` and `instep runs` hand over to the report; what they print is tested there."""

import sys
from pathlib import Path

import pytest

import told
from cli.said import Instep


@pytest.mark.usefixtures("build_file")
def test_a_run_is_shown_and_listed(instep: Instep) -> None:
    instep("train", "my.py")
    shown = instep("show", "runs/my")
    assert (shown.code, shown.err) == (0, "")
    assert shown.out.startswith("runs/my: Linear\n")
    assert "best: valid/loss" in shown.out
    listed = instep("runs")
    assert (listed.code, listed.err) == (0, "")
    assert listed.out.splitlines()[1].startswith("my   finished")
    assert instep("runs", "runs").out.split()[:1] == ["run"]


def test_what_is_not_there(instep: Instep) -> None:
    for arguments, words in [
        (["show", "runs/none"], "runs/none does not exist; `instep runs` lists the runs there are."),
        (["show"], "missing: RUN. See instep show --help."),
        (["runs", "none"], "there is no folder none;"),
    ]:
        said = instep(*arguments)
        assert (said.code, said.out) == (2, "")
        assert words in said.err
        assert said.err.count("\n") == 1


@pytest.mark.parametrize(("ending", "start"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")])
def test_a_run_is_drawn(instep: Instep, ending: str, start: bytes) -> None:
    told.run_folder(Path("run"))
    said = instep("show", "run", "--plot", "-o", f"picture.{ending}")
    assert (said.code, said.err) == (0, "")
    assert said.out.endswith(f"\n\npicture: picture.{ending}\n")
    assert Path(f"picture.{ending}").read_bytes().startswith(start)


def test_without_a_name_the_picture_is_in_the_folder_of_the_run(instep: Instep) -> None:
    told.run_folder(Path("run"))
    assert instep("show", "run", "--plot").out.endswith("\npicture: run/curves.png\n")
    assert Path("run/curves.png").exists()
    listed = instep("runs", ".")
    assert (listed.code, listed.err) == (0, "")


def test_what_cannot_be_drawn(instep: Instep, monkeypatch: pytest.MonkeyPatch) -> None:
    told.run_folder(Path("run"))
    told.run_folder(Path("empty"), epochs=0)
    for arguments, words in [
        (["run", "--plot", "-o", "a.jpeg"], "a.jpeg ends in .jpeg; use .png, .svg or .pdf."),
        (["run", "-o", "a.png"], "-o a.png is the picture of --plot: instep show run --plot -o a.png"),
        (["run", "--plot", "-o", "none/a.png"], "none/a.png cannot be written: No such file or directory."),
        (["empty", "--plot"], "empty has nothing to draw yet: no line of the log, and no evaluation."),
    ]:
        said = instep("show", *arguments)
        assert (said.code, said.out) == (2, ""), said
        assert words in said.err
    for name in ("matplotlib", "matplotlib.figure"):
        monkeypatch.setitem(sys.modules, name, None)
    said = instep("show", "run", "--plot")
    assert (said.code, said.out) == (1, "")
    assert 'instep show --plot needs matplotlib, which is not installed; type: pip install "matplotlib>=3.8"' in said.err
