"""A folder with many checkpoints: what a run reads of it does not grow with their number."""

import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from instep import Trainer
from instep.checkpoint import Checkpoint, Writer, checkpoint_folder, steps
from tiny import X, Y, make

opened: list[str] | None = None  # files and folders, while a test counts


def note(event: str, arguments: tuple[Any, ...]) -> None:
    if opened is not None and event in ("open", "os.listdir", "os.scandir"):
        opened.append(str(arguments[0]))


@pytest.fixture(scope="module")
def _counting() -> None:
    sys.addaudithook(note)  # for ever: none can be taken away


def train(folder: Path, valid: Any, stop: int) -> Trainer:
    """As far as this step, with a checkpoint of every update, all kept."""
    options: dict[str, Any] = {"epochs": None, "max_steps": 100, "evaluate_every": 5, "checkpoint_every": 1, "keep": None}
    trainer = make(folder=folder, valid=valid, **options)
    for update in trainer.updates():
        if update.step + 1 == stop:
            break
    return trainer


def opened_by_a_resumed_run(folder: Path, valid: Any) -> int:
    global opened
    opened = []
    try:
        assert train(folder, valid, 23).resumed_from == 20
        return sum(str(folder) in path for path in opened)
    finally:
        opened = None


@pytest.mark.usefixtures("_counting")
@pytest.mark.parametrize("valid", [None, (X[:9], Y[:9])], ids=["no best", "a best"])
def test_a_resumed_run_opens_no_more_with_twenty_than_with_three(tmp_path: Path, valid: Any) -> None:
    many, few = tmp_path / "many", tmp_path / "few"
    train(many, valid, 20)
    shutil.copytree(many, few)
    checkpoints = few / "checkpoints"
    best = checkpoint_folder.best_step(checkpoints)
    assert (best is None) == (valid is None)
    for step in steps(checkpoints)[:-3]:
        if step != best:
            shutil.rmtree(checkpoint_folder.path_of(checkpoints, step))
    assert len(steps(many / "checkpoints")) == 20
    assert opened_by_a_resumed_run(many, valid) == opened_by_a_resumed_run(few, valid)


def test_a_further_checkpoint_is_written_without_a_look_through_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "checkpoints"
    with Writer(folder, background=False) as writer:
        writer.save(Checkpoint(5, {}, {}, best=5))
        with monkeypatch.context() as counting:
            counting.setattr(checkpoint_folder, "steps", None)
            writer.save(Checkpoint(6, {}, {}, best=5))
        assert {name: (folder / name).read_text() for name in ("LATEST", "BEST")} == {
            "LATEST": "step-00000006\n",
            "BEST": "step-00000005\n",
        }
        writer.save(Checkpoint(4, {}, {}, best=None))  # somebody went back
    assert steps(folder) == [4]
    assert (folder / "LATEST").read_text() == "step-00000004\n"
