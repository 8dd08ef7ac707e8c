"""The commands on real pseudo terminals of 60 to 200 columns: what a person sees. And `instep train`, however it ends."""

import functools
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from cli.said import Instep
from instep.cli import main
from screen import Shown, show

FILE = '''\
import torch
from torch import nn
from torch.utils.data import Dataset

from instep.trainer import Trainer

NAMES = ["accuracy", "precision", "recall", "f1", "iou", "dice", "top2", "f1_per_class", "recall_per_class", "auroc"]


class Slow(Dataset):
    """Data for which one has to wait."""

    def __init__(self, x, y):
        self.x, self.y = x, y

    def __len__(self):
        return len(self.x)

    def __getitem__(self, place):
        import time

        time.sleep(0.002)
        return self.x[place], self.y[place]


def build(kind: str = "", lr: float = 0.1, epochs: int = 3) -> Trainer:
    """Points on either side of a plane, with a docstring that is longer than sixty columns are wide."""
    x = torch.randn(60, 6)
    y = (x[:, 0] > 0).long() + (x[:, 1] > 0).long()
    if kind == "nan":
        x[50] = float("nan")
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
    return Trainer(
        model,
        loss=nn.functional.cross_entropy,
        optimizer=torch.optim.SGD(model.parameters(), lr=lr, fused=True),
        train=Slow(x, y) if kind == "slow" else (x, y),
        valid=None if kind == "alone" else (x[:30], y[:30]),
        metrics=NAMES if kind == "many" else () if kind == "alone" else ["accuracy"],
        patience=1 if kind == "patience" else None,
        epochs=epochs,
        batch_size=10,
    )
'''
LONG = "runs/a-run-with-quite-a-long-name"


@pytest.fixture
def file(folder: Path) -> Path:
    (folder / "my.py").write_text(FILE)
    return folder


def on_terminal(*arguments: str, columns: int = 60, interrupt_at: str = "", **environment: str) -> Shown:
    shown = show(functools.partial(main, arguments), columns=columns, environment=environment, interrupt_at=interrupt_at)
    assert shown.screen.wraps == 0, shown.text
    return shown


# --- Every command, at every width


@pytest.mark.usefixtures("file")
def test_no_command_writes_a_line_that_does_not_fit(instep: Instep) -> None:
    assert instep("train", "my.py", "--kind", "many").code == 0
    assert instep("train", "my.py", "--kind", "many", "--lr", "0.2", "--folder", LONG).code == 0
    assert instep("train", "my.py", "--kind", "nan", "--folder", "runs/nan").code == 1
    np.save("x.npy", np.zeros((9, 6), np.float32))
    tables = ["predict runs/my x.npy", "show runs/my", f"show {LONG}", "runs", f"diff runs/my {LONG}", "evaluate runs/my"]
    others = [
        "preview my.py", "graph my.py",
        "find-lr my.py --steps 20 --repeats 1", "find-batch my.py --most 8", "report runs/my", "--help", "show --help",
        "doctor --help", "doctor --list", "doctor --explain clip-after-step", "train my.py --lr 0.3", "tran", "show nowhere",
        "train my.py --dry-run", "init other.py", "replay runs/my --step 3 --to 5", f"diff runs/my {LONG} --diverge",
        "replay runs/nan --step 5 --anomaly",
    ]  # fmt: skip
    for columns, commands in ((60, [*tables, *others]), (80, tables), (200, tables)):
        for command in commands:
            assert on_terminal(*command.split(), columns=columns).text, command


@pytest.mark.usefixtures("file")
def test_colours_are_for_those_who_want_them(instep: Instep) -> None:
    assert instep("train", "my.py").code == 0
    for command in ("show runs/my", "runs", "evaluate runs/my", "graph my.py", "preview my.py", "train my.py", "tran"):
        words = command.split()
        coloured = on_terminal(*words, columns=80)
        assert coloured.has_colour, command
        declined = ({"NO_COLOR": "1"}, {"TERM": "dumb"}, {"CLICOLOR": "0"}) if "my.py" not in words else ({"NO_COLOR": "1"},)
        for environment in declined:
            assert not on_terminal(*words, columns=80, **environment).has_colour, (command, environment)
        piped = instep(*words)
        assert "\x1b" not in piped.out + piped.err, command


@pytest.mark.usefixtures("file")
def test_forced_colours_go_into_a_pipe(instep: Instep, monkeypatch: pytest.MonkeyPatch) -> None:
    assert instep("train", "my.py").code == 0
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[32mfinished" in instep("runs").out
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in instep("runs").out


@pytest.mark.usefixtures("file")
def test_tables_are_shortened_sensibly(instep: Instep) -> None:
    assert instep("train", "my.py", "--kind", "many", "--folder", LONG).code == 0
    narrow, wide = (on_terminal("runs", columns=columns).text for columns in (60, 120))
    assert "a-run-with…-long-name  finished" in narrow
    assert "size" not in narrow
    assert "a-run-with-quite-a-long-name  finished" in wide
    assert "size" in wide
    assert "… 13 more columns in the history" in on_terminal("show", LONG).text
    assert "a-run-with-quite-a-long-name  finished" in instep("runs").out  # a file has room for all


# --- The end of `instep train`


@pytest.mark.usefixtures("file")
def test_a_new_run_ends_with_what_one_would_show_to_a_friend() -> None:
    shown = on_terminal("train", "my.py")
    assert shown.code == 0
    *_, table, _, head, _, trained, best, last, more, run, _, evaluate, look, report = shown.screen.text()
    assert table.startswith("  3/3    18")
    assert head.startswith("finished: 3 epochs, 18 updates in 0:0")
    assert trained == "  trained  Sequential, 83 parameters; 60 samples"
    assert best.startswith("  best     valid/loss ")
    assert best.endswith("(step 18)")
    assert last.startswith("  last     train/loss ")
    assert more.startswith("           valid/accuracy ")
    assert (run, evaluate, look) == ("  run      runs/my", "  instep evaluate runs/my", "  instep show runs/my")
    assert report == "  instep report runs/my"
    assert "finished at step" not in shown.text  # once is enough
    assert on_terminal(*report.split()[1:]).text.startswith("report: runs/my/report.html")


@pytest.mark.usefixtures("file")
def test_a_run_that_is_interrupted_says_how_to_go_on_and_leaves_no_rubbish() -> None:
    shown = on_terminal("train", "my.py", "--kind", "slow", interrupt_at="1/3")
    assert shown.code == 130
    said = shown.text.split("best\n")[-1]
    assert "━" not in said
    assert "instep: stopping after this update; once more stops at once." in said
    assert "kept\nin runs/my: start it again, and it goes on from there." in said
    again = on_terminal("train", "my.py", "--kind", "slow", columns=80)
    assert again.code == 0
    assert "resumed at step" in again.text
    assert "note: going on from step" in again.text


@pytest.mark.usefixtures("file")
def test_other_ends() -> None:
    assert "stopped: " in (stopped := on_terminal("train", "my.py", "--kind", "patience", "--lr", "30", "--folder", "p").text)
    assert "valid/loss has not\nimproved for 1 evaluation" in stopped
    failed = on_terminal("train", "my.py", "--kind", "nan", "--folder", "n")
    assert failed.code == 1
    assert "failed at step" in failed.text
    assert "instep report" not in failed.text
    alone = on_terminal("train", "my.py", "--kind", "alone", "--folder", "a").text
    assert "epoch 3/3  step 18/18  loss " in alone
    assert "instep evaluate" not in alone
    many = on_terminal("train", "my.py", "--kind", "many", "--folder", "m").text
    assert "epoch  step  train/loss  valid/loss  … 14 more" in many
    assert "… 10 more" in many
    assert "--new trains again in a new folder" in on_terminal("train", "my.py", "--kind", "many", "--folder", "m").text


@pytest.mark.slow
@pytest.mark.usefixtures("file")
def test_two_processes_speak_as_one() -> None:
    command = [sys.executable, "-m", "instep", "train", "my.py", "--processes", "2"]
    shown = show(command, columns=60, environment={"PYTHONPATH": os.pathsep.join(filter(None, sys.path))})
    assert shown.screen.wraps == 0
    assert shown.text.count("finished: 3 epochs") == 1
    assert shown.screen.text()[-1] == "  instep report runs/my"


@pytest.mark.usefixtures("file")
def test_output_that_goes_to_a_file_has_the_end_in_both(instep: Instep) -> None:
    said = instep("train", "my.py")
    assert "finished at step 18 after" in said.err
    assert "finished: 3 epochs, 18 updates" in said.out
    assert subprocess.list2cmdline(["instep", "report", "runs/my"]) in said.out.splitlines()[-1]
