"""`instep train --find-lr`: a range test first, and training with what it suggests; found once, kept, and gone on with."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from cli.recorded import described
from cli.said import Instep, Said

BUILD = """\
import torch
from torch import nn

from instep import OneCycle, Trainer
from instep.schedules import Linear

SCHEDULES = {"none": None, "cycle": OneCycle(0.001), "line": Linear(), "peaks": OneCycle([0.1, 0.2]), "own": lambda p: 0.1}


def build(schedule: str = "none", max_steps: int = 16, lr: float = 0.001, seed: int = 0) -> Trainer:
    x = torch.randn(256, 4)
    model = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))
    groups = [{"params": model[0].parameters(), "lr": lr / 10}, {"params": model[2].parameters(), "lr": lr}]
    return Trainer(
        model,
        loss=nn.functional.mse_loss,
        optimizer=torch.optim.Adam(groups),
        schedule=SCHEDULES[schedule],
        train=(x, x.sum(1, keepdim=True)),
        max_steps=max_steps,
        batch_size=32,
        checkpoint_every=4,
        log_every=1,
        seed=seed,
    )
"""


@pytest.fixture(autouse=True)
def easy_file(folder: Path) -> Path:
    path = folder / "easy.py"
    path.write_text(BUILD)
    return path


def found_by(said: Said) -> float:
    assert said.code == 0, said.err
    return float(json.loads(said.out)["found_lr"]["lr"])


def lrs(folder: str) -> list[float]:
    rows = [json.loads(line) for line in Path(folder, "history.jsonl").read_text().splitlines()]
    return [row["lr"] for row in rows if row["kind"] == "update"]


def test_without_a_schedule_it_is_the_optimizers_lr_and_groups_keep_their_ratios(instep: Instep) -> None:
    lr = found_by(instep("train", "easy.py", "--find-lr", "--json"))
    assert lr != 0.001
    groups = described(Path("runs/easy"))["optimizer"]["groups"]
    assert [group["lr"] for group in groups] == [pytest.approx(lr / 10), lr]
    assert lrs("runs/easy") == [pytest.approx(lr / 10)] * 16


def test_with_a_one_cycle_it_is_the_peak(instep: Instep) -> None:
    lr = found_by(instep("train", "easy.py", "--schedule", "cycle", "--find-lr", "--json"))
    assert described(Path("runs/easy"))["settings"]["schedule"]["max_lr"] == lr
    assert max(lrs("runs/easy")) == pytest.approx(lr / 10, rel=0.2)
    assert lrs("runs/easy")[0] == pytest.approx(lr / 25 / 10)


def test_other_schedules_start_from_it(instep: Instep) -> None:
    lr = found_by(instep("train", "easy.py", "--schedule", "line", "--find-lr", "--json"))
    assert lrs("runs/easy")[0] == pytest.approx(lr / 10)


def test_it_is_what_find_lr_finds_and_the_run_is_one_with_that_lr(instep: Instep) -> None:
    lr = found_by(instep("train", "easy.py", "--find-lr", "--json"))
    assert json.loads(instep("find-lr", "easy.py", "--json").out)["suggestion"] == lr
    by_hand = instep("train", "easy.py", "--lr", repr(lr), "--json", "--folder", "by-hand")
    assert by_hand.code == 0
    assert weights("by-hand") == weights("runs/easy")


def test_curve_reason_and_plan_are_shown(instep: Instep) -> None:
    said = instep("train", "easy.py", "--schedule", "cycle", "--find-lr", "--no-progress")
    assert said.code == 0
    assert said.out.index("▲  before divergence") < said.out.index("suggestion 0.") < said.out.index("updates    8 an epoch")
    assert described(Path("runs/easy"))["found_lr"]["reason"] in " ".join(said.out.split())


def weights(folder: str) -> bytes:
    latest = Path(folder, "checkpoints", "LATEST").read_text().strip()
    return Path(folder, "checkpoints", latest, "model.safetensors").read_bytes()


INTERRUPTED = """\

def build_cut(schedule: str = "none", seed: int = 0) -> Trainer:
    trainer = build(schedule, seed=seed)
    log = trainer.run.logbook.updated
    def updated(update, **options):
        log(update, **options)
        if update.step == 9:
            raise KeyboardInterrupt
    trainer.run.logbook.updated = updated
    return trainer
"""


@pytest.mark.parametrize("schedule", ["none", "cycle"])
def test_a_run_that_goes_on_searches_no_more_and_is_the_same(
    instep: Instep, easy_file: Path, schedule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    easy_file.write_text(BUILD + INTERRUPTED)
    options = ("--schedule", schedule)
    assert instep("train", "easy.py", *options, "--find-lr", "--folder", "whole").code == 0
    assert instep("train", "easy.py:build_cut", *options, "--find-lr", "--folder", "cut").code == 130
    known = described(Path("cut"))
    Path("cut", "run.json").write_text(json.dumps(known | {"hyper_parameters": described(Path("whole"))["hyper_parameters"]}))
    shutil.copytree("cut", "cut without it")
    monkeypatch.setattr("instep.trainer.Trainer.find_lr", never)
    for cut, again in (("cut", ("--find-lr",)), ("cut without it", ())):
        said = instep("train", "easy.py", *options, *again, "--folder", cut)
        assert said.code == 0, said.err
        assert "which --find-lr found for this run" in said.out
        assert weights(cut) == weights("whole")
        assert lrs(cut) == lrs("whole")
        assert "is finished (16 updates): nothing is left" in instep("train", "easy.py", *options, *again, "--folder", cut).err


def never(*_: object, **__: object) -> Any:
    raise AssertionError("it was found already")


def test_the_run_can_be_used_by_other_commands(instep: Instep, easy_file: Path) -> None:
    easy_file.write_text(BUILD.replace("        max_steps", "        valid=0.2,\n        max_steps"))
    assert instep("train", "easy.py", "--find-lr").code == 0
    assert "valid/loss" in instep("evaluate", "runs/easy").out
    assert instep("show", "runs/easy").code == 0


def test_a_dry_run_shows_and_writes_nothing(instep: Instep) -> None:
    said = instep("train", "easy.py", "--schedule", "cycle", "--find-lr", "--dry-run")
    assert said.code == 0
    assert "▲  before divergence" in said.out
    assert said.out.endswith("ok: two updates went through; nothing was written.\n")
    assert sorted(path.name for path in Path().iterdir()) == ["easy.py"]


def test_where_nothing_is_suggested_nothing_is_trained(instep: Instep, easy_file: Path) -> None:
    easy_file.write_text(BUILD.replace("x.sum(1, keepdim=True)", "torch.randn(256, 1) * 1e3 ** torch.randn(256, 1)"))
    said = instep("train", "easy.py", "--find-lr")
    assert said.code == 1
    assert "no suggestion: noise" in said.out
    assert said.err.splitlines()[-1].startswith("instep: --find-lr found no learning rate to train with: noise: ")
    assert not Path("runs").exists()


def test_a_run_that_was_begun_without_it(instep: Instep) -> None:
    assert instep("train", "easy.py").code == 0
    said = instep("train", "easy.py", "--find-lr")
    assert said.code == 2
    assert (
        "runs/easy holds a run that was begun without --find-lr; leave it out to go on, or start again: --new or --fresh."
        in said.err
    )
    assert instep("train", "easy.py", "--find-lr", "--fresh").code == 0


@pytest.mark.parametrize(
    ("schedule", "words"),
    [
        ("peaks", "OneCycle has max_lr=[0.1, 0.2], a peak for each group, and one learning rate cannot take their place"),
        ("own", "schedule= is a function that gives the learning rates itself, so another one cannot be put in"),
    ],
)
def test_schedules_that_take_no_other_lr(instep: Instep, schedule: str, words: str) -> None:
    said = instep("train", "easy.py", "--find-lr", "--schedule", schedule)
    assert said.code == 2
    assert words in said.err


def test_the_option_is_the_commands(instep: Instep) -> None:
    Path("both.py").write_text("def build(find_lr: bool = False):\n    return None\n")
    said = instep("train", "both.py")
    assert "build() of both.py has the parameter find_lr, which the command itself uses" in said.err
    assert "--find-lr" in instep("train", "easy.py", "--help").out
    assert instep("train", "--find-lr", "easy.py", "--dry-run").code == 0
