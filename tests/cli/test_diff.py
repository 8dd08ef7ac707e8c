"""`instep diff`: two runs, and where they part."""

import json
import shutil
from pathlib import Path

import pytest

from cli.recorded import trained
from cli.said import Instep

pytestmark = pytest.mark.usefixtures("build_file")


def test_the_same_training_twice_has_bitwise_equal_weights(instep: Instep) -> None:
    first = trained(instep, folder="runs/a")
    shutil.copytree(first, "runs/b")
    said = instep("diff", "runs/a", "runs/b")
    assert (said.code, said.err) == (0, "")
    descriptions, numbers, weights = said.out.split("\n\n")
    assert descriptions == "the descriptions are the same"
    assert numbers.splitlines()[:3] == [
        "                       runs/a    runs/b",
        "state                finished  finished",
        "step                        4         4",
    ]
    assert weights == "weights: all 2 tensors are bitwise equal\n"


def test_what_differs_is_shown_side_by_side(instep: Instep) -> None:
    trained(instep, folder="runs/a")
    trained(instep, "--lr", "0.2", "--epochs", "3", folder="runs/b")
    said = instep("diff", "runs/a", "runs/b", "--which", "2")
    assert (said.code, said.err) == (0, "")
    descriptions, numbers, weights = said.out.split("\n\n")
    rows = {line.split()[0]: line.split()[1:] for line in descriptions.splitlines()}
    assert rows["hyper_parameters.lr"] == ["0.1", "0.2"]
    assert rows["optimizer.groups.0.lr"] == ["0.1", "0.2"]
    assert rows["settings.epochs"] == ["2", "3"]
    assert "seed" not in descriptions
    assert [line.rsplit(maxsplit=2)[0] for line in numbers.splitlines()[1:]] == [
        "state", "step", "last train/loss",
        "last valid/loss", "last valid/accuracy", "best valid/loss"
    ]  # fmt: skip
    lines = weights.splitlines()
    assert lines[0] == "weights: 2 of 2 tensors differ"
    assert lines[1].split() == ["tensor", "largest", "difference", "relative"]
    assert {line.split()[0] for line in lines[2:]} == {"weight", "bias"}


def test_other_code_modules_and_data_are_named_and_no_hash_is_shown(instep: Instep) -> None:
    trained(instep, folder="runs/a")
    text = Path("my.py").read_text()
    changed = text.replace("torch.randn(20, 4)", "torch.randn(20, 4) + 1")
    assert changed != text
    Path("my.py").write_text(changed)
    trained(instep, "--deep", folder="runs/b")
    descriptions = instep("diff", "runs/a", "runs/b").out.split("\n\n")[0]
    rows = {line.split("  ")[0]: line.split()[-2:] for line in descriptions.splitlines()}
    assert rows["data.train.values"] == ["differs", "differs"]
    assert "Linear(in_features=4, out_features=3, bias=True)" in descriptions
    run = json.loads(Path("runs/a/run.json").read_text())
    assert run["data"]["train"]["hash"] not in descriptions
    assert run["data"]["train"]["content"]["columns"][0] not in descriptions


def test_other_models_have_what_they_share_compared(instep: Instep) -> None:
    trained(instep, folder="runs/a")
    trained(instep, "--deep", folder="runs/b")
    weights = instep("diff", "runs/a", "runs/b").out.split("\n\n")[2].splitlines()
    assert weights == [
        "weights: no tensor is in both",
        "only in runs/a: weight, bias",
        "only in runs/b: 0.weight, 0.bias, 1.weight, 1.bias",
    ]


def test_a_run_without_weights_is_compared_all_the_same(instep: Instep) -> None:
    run = trained(instep, folder="runs/a")
    trained(instep, folder="runs/b")
    said = instep("diff", "runs/a", "runs/b", "--which", "3")
    assert said.out.endswith("weights: not compared. runs/a has no checkpoint 3; use latest, or a step that is there: 2, 4.\n")
    shutil.rmtree(run / "checkpoints")
    said = instep("diff", "runs/b", "runs/a")
    assert (said.code, said.err) == (0, "")
    assert said.out.endswith("weights: not compared. runs/a has no checkpoints, so there are no weights to use.\n")
    said = instep("diff", "runs/a", "runs/none")
    assert (said.code, said.err) == (2, "instep: runs/none does not exist; `instep runs` lists the runs there are.\n")
    Path("empty").mkdir()
    assert "empty is not a run" in instep("diff", "empty", "runs/b").err
