"""`instep diff --diverge`: the first step at which two runs part, and what parts them."""

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from cli.recorded import describe, trained
from cli.said import Instep

FILE = """\
import os

import torch
from torch import nn

from instep.trainer import Trainer


def loss(out, target):
    shaken = 1 + 1e-3 if os.environ.get("INSTEP_TEST_SHAKE") and float(out.detach().sum()) > 1 else 1
    return nn.functional.cross_entropy(out, target) * shaken


def build(
    nudge: float = 0.0, lr: float = 0.1, drop: float = 0.1, seed: int = 0, more: float = 0.0, cycle: int = 1, log: int = 3
) -> Trainer:
    generator = torch.Generator().manual_seed(5)
    x = torch.randn(80, 6, generator=generator)
    y = (x[:, 0] > 0).long()
    valid = x[:30] + more, y[:30]
    x[50, 2] += nudge
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.Dropout(drop), nn.Linear(8, 2))
    return Trainer(
        model,
        loss=loss,
        optimizer=torch.optim.AdamW(model.parameters(), lr=lr),
        train=(x, y),
        valid=valid,
        epochs=3,
        batch_size=10,
        update_cycle=cycle,
        checkpoint_every=4,
        keep=None,
        log_every=log,
        seed=seed,
    )
"""

Parted = Callable[..., dict[str, str]]

pytestmark = [pytest.mark.usefixtures("file"), pytest.mark.filterwarnings("ignore::instep.errors.Notice")]


@pytest.fixture
def file(folder: Path) -> Path:
    path = folder / "my.py"
    path.write_text(FILE)
    return path


@pytest.fixture
def parted(instep: Instep) -> Parted:
    trained(instep, folder="runs/a")

    def compare(*options: str) -> dict[str, str]:
        """What is said of a run with these options beside one without, by its rows."""
        if options:
            trained(instep, *options, folder="runs/b")
        before = {path: path.read_bytes() for path in Path("runs").rglob("*") if path.is_file()}
        said = instep("diff", "runs/a", "runs/b", "--diverge")
        assert (said.code, said.err) == (0, "")
        assert {path: path.read_bytes() for path in Path("runs").rglob("*") if path.is_file()} == before
        text, _, described = said.out.partition("\n\n")
        head, *lines = text.split("\n")
        rows = re.findall(r"^(\w+) +(.*(?:\n .*)*)", "\n".join(lines), re.MULTILINE)
        return {"head": head, "described": described, **{name: " ".join(value.split()) for name, value in rows}}

    return compare


def test_runs_that_are_the_same_have_no_difference(parted: Parted) -> None:
    Path("my.py").rename("away.py")  # nothing is built
    shutil.copytree("runs/a", "runs/b")
    found = parted()
    assert found["head"] == "no difference between runs/a and runs/b"
    assert found["histories"] == "the same to step 24 (12 rows)"
    assert found["checkpoints"] == "the same at step 24 (6 compared)"
    assert "replayed" not in found
    assert found["described"] == "the descriptions are the same\n"


def test_a_sample_that_differs_is_named_in_its_step(parted: Parted) -> None:
    found = parted("--nudge", "0.001")
    words = (
        r"both from (the start of the run|the checkpoint of step \d+), the same for \d updates?; in the update of step (\d+), "
    )
    match = re.fullmatch(rf"{words}column 0 of the batch has other values, by 0\.001000 at most: sample 50", found["replayed"])
    assert match
    assert found["head"] == f"runs/a and runs/b part in the update of step {match[2]}"
    assert "hyper_parameters.nudge  0.0      0.001" in found["described"]


def test_a_learning_rate_parts_the_weights_of_the_first_step(parted: Parted) -> None:
    found = parted("--lr", "0.2")
    assert found["head"] == "runs/a and runs/b part in the update of step 0"
    assert re.search(r"weight 0\.weight differs after it \(lr is 0\.1 and 0\.2\): by ", found["replayed"])
    assert re.match(r"not at step 4: model 0\.weight by [\d.]+, ", found["checkpoints"])


def test_a_gradient_that_differs_is_named(parted: Parted) -> None:
    found = parted("--cycle", "2", "--drop", "0.1")
    assert re.search(r"in the update of step 0, (loss|gradient of 0\.weight) differs: by ", found["replayed"])


def test_another_seed_is_another_order(parted: Parted) -> None:
    assert "the batches have other samples: (" in parted("--seed", "1")["replayed"]


def test_validation_data_that_differs_parts_no_weights(parted: Parted) -> None:
    found = parted("--more", "0.5")
    assert "the weights are the same, and valid/loss after it is " in found["replayed"]
    assert found["checkpoints"].startswith("the same at step 24")


def test_another_log_is_no_difference(parted: Parted) -> None:
    found = parted("--log", "2")
    assert found["head"] == "no difference between runs/a and runs/b"
    assert "log" in found["described"]


def test_what_is_not_recorded_is_said_to_be_so(parted: Parted, monkeypatch: pytest.MonkeyPatch, instep: Instep) -> None:
    monkeypatch.setenv("INSTEP_TEST_SHAKE", "1")
    trained(instep, folder="runs/b")
    monkeypatch.delenv("INSTEP_TEST_SHAKE")
    found = parted()
    assert "here they are the same, bit for bit, so that what parts them is not in what is recorded" in found["replayed"]
    assert re.search(r"runs/a: \d+ rows? of it, to step \d+: the same, bit for bit; runs/b: .*: they differ", found["replayed"])
    assert re.match(r"runs/a and runs/b part in an update from step \d+ to \d+$", found["head"])


def test_runs_that_cannot_be_built_are_compared_by_their_files(parted: Parted, instep: Instep) -> None:
    trained(instep, "--nudge", "0.001", folder="runs/b")
    describe(Path("runs/b"), script=None)
    found = parted()
    assert found["replayed"].startswith("no. runs/b does not say what built it")
    assert "part in an update from step" in found["head"]
    said = instep("diff", "runs/a", "runs/b", "--diverge", "--file", "my.py")
    assert "sample 50" in said.out
    shutil.rmtree("runs/b/checkpoints")
    Path("runs/b/history.jsonl").write_text("")
    assert parted()["head"] == "nothing of runs/a and runs/b could be compared"
    said = instep("diff", "runs/a", "runs/b", "--file", "my.py")
    assert (said.code, said.err) == (2, "instep: --file goes with --diverge, which builds both runs again.\n")
