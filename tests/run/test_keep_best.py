"""keep_best=: the checkpoints of the best evaluations stay, beside the newest ones, however the run was stopped."""

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from instep import Trainer
from instep.errors import DescriptionError
from instep.report.show import render
from tiny import TASKS

X, Y = TASKS[0].draw(40, seed=0, dtype=torch.float32)
VALUES = [5.0, 2.0, 4.0, 1.0, 3.0, 6.0, 2.0, 7.0]  # after each update; less is better


def make(folder: Path, values: list[float] = VALUES, **changes: Any) -> Trainer:
    """A run of eight updates, each followed by an evaluation that gives these values."""
    model = TASKS[0].build(0, torch.float32)
    trainer: Trainer

    def told(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return torch.full((len(target),), values[trainer.step - 1])

    given: dict[str, Any] = {"evaluate_every": 1, "checkpoint_every": None, "keep": 1, "keep_best": 3, "epochs": 2}
    trainer = Trainer(
        model,
        loss=F.cross_entropy,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        train=(X, Y),
        valid=(X[:10], Y[:10]),
        metrics={"told": told},
        monitor="valid/told",
        monitor_mode="min",
        batch_size=10,
        folder=folder,
        progress=False,
        **(given | changes),
    )
    return trainer


def steps(folder: Path) -> list[int]:
    return sorted(int(path.name.removeprefix("step-")) for path in (folder / "checkpoints").glob("step-*"))


def test_the_best_three_stay_beside_the_newest(tmp_path: Path) -> None:
    """Of two that are as good, the earlier one is better."""
    history = make(tmp_path / "run").fit()
    assert steps(tmp_path / "run") == [2, 4, 7, 8]
    assert [row["step"] for row in history.best_rows(3)] == [4, 2, 7]
    assert (tmp_path / "run" / "checkpoints" / "BEST").read_text() == "step-00000004\n"


def test_without_it_the_best_one_stays(tmp_path: Path) -> None:
    make(tmp_path / "run", keep_best=1).fit()
    assert steps(tmp_path / "run") == [4, 8]


@pytest.mark.parametrize("stop", range(1, 8))
def test_a_run_that_was_stopped_keeps_the_same_ones(tmp_path: Path, stop: int) -> None:
    for update in make(tmp_path / "run").updates():
        if update.step == stop - 1:
            break
    make(tmp_path / "run").fit()
    assert steps(tmp_path / "run") == [2, 4, 7, 8]


def test_a_run_that_was_killed_keeps_the_same_ones(tmp_path: Path) -> None:
    """What is on the disk after each update is what a kill leaves: the best so far are always among it."""
    trainer = make(tmp_path / "run")
    for update in trainer.updates():
        trainer.run.saver._writer.wait()  # type: ignore[union-attr]
        seen = VALUES[: update.step + 1]
        best = sorted(range(len(seen)), key=lambda i: (seen[i], i))[:3]
        assert {i + 1 for i in best} <= set(steps(tmp_path / "run"))


def test_more_may_be_kept_by_and_by(tmp_path: Path) -> None:
    """How many are kept decides nothing about the training, so it may change."""
    values = [5.0, 2.0, 4.0, 1.0, 3.0, 6.0, 1.5, 7.0]
    for update in make(tmp_path / "run", values, keep_best=1).updates():
        if update.step == 4:
            break
    make(tmp_path / "run", values, keep_best=2).fit()
    assert steps(tmp_path / "run") == [4, 7, 8]


@pytest.mark.filterwarnings("ignore:valid/told is nan")
def test_nan_is_never_among_them(tmp_path: Path) -> None:
    make(tmp_path / "run", [float("nan"), 2.0, float("nan"), 1.0, 3.0, 4.0, 5.0, 6.0]).fit()
    assert steps(tmp_path / "run") == [2, 4, 5, 8]


def test_show_lists_them_with_their_values(tmp_path: Path) -> None:
    make(tmp_path / "run").fit()
    table = render(tmp_path / "run").split("\n\n")[-1].splitlines()
    assert table[0].split() == ["checkpoint", "valid/told", "size", "age"]
    rows = [line.split() for line in table[1:]]
    assert [(row[0], row[1]) for row in rows] == [("2", "2.000"), ("4", "1.000"), ("7", "2.000"), ("8", "7.000")]
    assert [line.rpartition(" s  ")[2] for line in table[1:]] == ["2nd best", "best", "3rd best", "latest"]


def test_what_makes_no_sense(tmp_path: Path) -> None:
    with pytest.raises(DescriptionError, match=r"keep_best=0 must be a whole number, 1 or more"):
        make(tmp_path, keep_best=0)
    with pytest.raises(DescriptionError, match=r"keep_best=3 needs evaluations; pass valid= and evaluate_every="):
        model = TASKS[0].build(0, torch.float32)
        Trainer(model, loss=F.cross_entropy, optimizer=torch.optim.SGD(model.parameters()), train=(X, Y), epochs=1, keep_best=3)
