"""How a run ends: stopped, it says how to go on; started again though it is finished, it says that."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from instep import Trainer
from instep.errors import Interrupted
from tiny import TASKS

X, Y = TASKS[0].draw(40, seed=0, dtype=torch.float32)


def make(folder: Path | None, **changes: Any) -> Trainer:
    model = TASKS[0].build(0, torch.float32)
    given: dict[str, Any] = {"loss": F.cross_entropy, "train": (X, Y), "epochs": 2, "batch_size": 10, "progress": True}
    return Trainer(model, folder=folder, optimizer=torch.optim.SGD(model.parameters(), lr=0.1), **(given | changes))


def stopped(folder: Path | None, *, after: int) -> str:
    """What a run says that is asked to stop in the middle of an update."""
    seen = 0

    def loss(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        nonlocal seen
        seen += 1
        if seen == after:
            os.kill(os.getpid(), signal.SIGINT)
        return F.cross_entropy(output, target)

    with pytest.warns(UserWarning, match="counts as a mean"), pytest.raises(Interrupted) as caught:
        make(folder, loss=loss, progress=False).fit()
    return str(caught.value)


def test_a_run_that_is_stopped_says_how_to_go_on(tmp_path: Path) -> None:
    assert stopped(tmp_path / "run", after=3) == (
        f"stopped by Ctrl-C after 3 updates, all of them kept in {tmp_path / 'run'}: start it again, and it goes on from there."
    )


def test_without_a_folder_nothing_was_kept() -> None:
    assert stopped(None, after=1) == (
        "stopped by Ctrl-C after 1 update; without folder= nothing is kept, so a new start begins at the first update."
    )


def test_a_finished_run_that_is_started_again_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "run"
    trainer = make(folder)
    trainer.fit()
    capsys.readouterr()
    said = (
        f"note: {folder} is finished (8 updates): nothing is left to train. Use another folder= to train anew, "
        "or more epochs= to go on.\n"
    )
    assert make(folder).fit().rows == trainer.history.rows
    assert capsys.readouterr().err == said
    trainer.fit()
    assert capsys.readouterr().err == said
    make(folder, progress=False).fit()
    assert capsys.readouterr().err == ""


def test_a_trainer_without_a_folder_that_is_finished_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    trainer = make(None, max_steps=1, epochs=None)
    trainer.fit()
    capsys.readouterr()
    trainer.fit()
    assert capsys.readouterr().err == "note: this Trainer is finished (1 update): nothing is left to train. Make a new one.\n"
