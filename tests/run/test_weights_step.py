"""An evaluation says the step of the weights that it looked at, and a new model beside a trained one is said."""

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from instep import Trainer
from instep.errors import Notice
from tiny import TASKS

X, Y = TASKS[0].draw(40, seed=0, dtype=torch.float32)


def make(folder: Path | None, **changes: Any) -> Trainer:
    """The first evaluation is the best: training climbs, by a learning rate below 0."""
    model = TASKS[0].build(0, torch.float32)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, maximize=True)
    given: dict[str, Any] = {"loss": F.cross_entropy, "train": (X, Y), "valid": (X, Y), "test": (X, Y), "max_steps": 6}
    given |= {"batch_size": 40, "evaluate_every": 1, "progress": False}
    return Trainer(model, folder=folder, optimizer=optimizer, **(given | changes))


@pytest.mark.parametrize("has_folder", [True, False])
def test_the_best_weights_have_their_own_step(tmp_path: Path, has_folder: bool) -> None:
    trainer = make(tmp_path / "run" if has_folder else None, restore_best=True)
    history = trainer.fit()
    assert (history.best or {})["step"] == 1
    assert (history.test or {})["step"] == 1
    assert trainer.evaluate().step == 1
    assert "at step 1)" in repr(trainer.evaluate())
    assert trainer.step == 6


def test_weights_that_were_loaded_have_the_step_of_their_checkpoint(tmp_path: Path) -> None:
    make(tmp_path / "run").fit()
    trainer = make(tmp_path / "run")
    trainer.load("best")
    assert (trainer.evaluate().step, trainer.evaluate().epoch) == (1, 0)
    trainer.load("latest")
    assert trainer.evaluate().step == 6
    longer = make(tmp_path / "run", max_steps=8)
    longer.load("best")
    longer.fit()
    assert longer.evaluate().step == 8


def test_a_new_model_beside_a_trained_one_is_said(tmp_path: Path) -> None:
    make(tmp_path / "run").fit()
    trainer = make(tmp_path / "run")
    for look in (trainer.evaluate, lambda: trainer.predict(X)):
        with pytest.warns(Notice, match=r'run holds a run, and these weights are not from it; call load\("best"\) or fit\(\)'):
            look()
    trainer.load("best")
    trainer.predict(X)
    trainer = make(tmp_path / "run")
    trainer.fit()
    trainer.predict(X)
