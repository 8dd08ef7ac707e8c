"""What a run says of itself, and what differs from the defaults."""

from pathlib import Path
from typing import Any

import pytest

import told
from instep.report.page.facts import as_text, command, facts_of
from instep.run.run_files import read_run


def facts(folder: Path, **changes: Any) -> dict[str, dict[str, tuple[str, str | None]]]:
    found = facts_of(read_run(told.run_folder(folder / "digits", **changes)))
    return {group: {name: (value, other) for name, value, other in rows} for group, rows in found.items()}


def test_what_is_not_the_default_says_so(tmp_path: Path) -> None:
    found = facts(tmp_path, settings={"batch_size": 64, "clip_norm": None, "seed": 3, "l1": {"$float": "inf"}})
    assert found["Trainer"] == {
        "batch_size": ("64", "default None"),
        "clip_norm": ("None", None),
        "seed": ("3", "default 0"),
        "l1": ("inf", "default 0.0"),
    }


def test_an_optimizer_is_held_against_torchs(tmp_path: Path) -> None:
    group = {"lr": 0.1, "betas": [0.9, 0.999], "weight_decay": 0.01, "name": "body"}
    found = facts(tmp_path, optimizer={"class": "AdamW", "groups": [group, {**group, "name": "head", "betas": [0.8, 0.999]}]})
    assert found["Optimizer"]["class"] == ("AdamW", None)
    assert found["Optimizer"]["body · lr"] == ("0.1", "default 0.001")
    assert found["Optimizer"]["body · betas"] == ("[0.9, 0.999]", None)
    assert found["Optimizer"]["head · betas"] == ("[0.8, 0.999]", "default [0.9, 0.999]")


def test_the_optimizers_of_several_objectives(tmp_path: Path) -> None:
    one = {"class": "SGD", "groups": [{"lr": 0.5, "momentum": 0}]}
    assert facts(tmp_path, optimizer={"d": one, "g": {**one, "class": "Mine"}})["Optimizer"] == {
        "d: class": ("SGD", None),
        "d: lr": ("0.5", "default 0.001"),
        "d: momentum": ("0", None),
        "g: class": ("Mine", None),
        "g: lr": ("0.5", None),
        "g: momentum": ("0", None),
    }


def test_options_that_were_typed_are_marked(tmp_path: Path) -> None:
    script = {"file": "/a/my.py", "function": "build", "options": ["--lr", "0.1", "--no-deep"]}
    found = facts(tmp_path, script=script, hyper_parameters={"lr": 0.1, "deep": False, "seed": 0})["Hyper-parameters"]
    typed = "given on the command line"
    assert found == {"lr": ("0.1", typed), "deep": ("False", typed), "seed": ("0", None)}


def test_the_environment_is_there(tmp_path: Path) -> None:
    found = facts(tmp_path, machine="Linux, 2 CPUs", git="abc")["Environment"]
    assert {"device", "machine", "threads", "torch", "git commit", "folder"} <= found.keys()


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ({}, None),
        ({"file": None, "function": "build", "options": []}, "instep train --new"),
        (
            {"file": "/a b/my.py", "function": "build", "options": ["--lr", "0.1"]},
            "instep train '/a b/my.py' --lr 0.1 --new",
        ),
        (
            {"file": "/a/my.py", "function": "other", "options": ["--folder", "runs/x", "--lr=1", "--fresh", "--json"]},
            "instep train /a/my.py:other --lr=1 --new",
        ),
        (
            {
                "file": "/my.py",
                "function": "build",
                "options": ["--allow-changes", "lr", "seed", "--folder=a", "--sizes", "1", "2"],
            },
            "instep train /my.py --sizes 1 2 --new",
        ),
    ],
)
def test_the_command_trains_it_again(script: dict[str, object], expected: str | None) -> None:
    assert command({"script": script}) == expected


def test_values_read_like_python() -> None:
    assert (
        as_text({"class": "OneCycle", "max_lr": 0.1, "momentum": None, "steps": [1, "a"]}) == "OneCycle(max_lr=0.1, steps=[1, a])"
    )
    assert as_text({"d": 1.0}) == "{d=1.0}"
