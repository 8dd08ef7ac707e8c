"""A one-cycle ends exactly at the last update of a run: with ragged ends, with max_steps, and after any stop."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from instep import OneCycle, Trainer
from tiny import TASKS


def trainer(folder: Path, **options: Any) -> Trainer:
    model = TASKS[0].build(0, torch.float32)
    return Trainer(
        model,
        loss=nn.functional.cross_entropy,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9),
        schedule=OneCycle(max_lr=0.5),
        train=TASKS[0].draw(37, seed=0, dtype=torch.float32),  # batches of 8, 8, 8, 8, 5
        batch_size=8,
        folder=folder,
        progress=False,
        **options,
    )


@pytest.mark.parametrize(
    ("length", "updates"),
    [
        ({"epochs": 3}, 15),
        ({"epochs": 3, "drop_last": True}, 12),
        ({"epochs": 3, "max_steps": 11}, 11),
        ({"max_steps": 7}, 7),
        ({"max_steps": 2}, 2),
        ({"max_steps": 1}, 1),
    ],
)
def test_the_last_update_has_the_last_learning_rate(tmp_path: Path, length: dict[str, Any], updates: int) -> None:
    curve = OneCycle(max_lr=0.5).curve(updates, 0.5)
    expected = [curve(position) for position in range(updates)]
    seen = []
    for stop in (2, 5, 9, 99):
        for update in trainer(tmp_path, **length).updates():
            seen.append(update.lr)
            if update.step == stop:
                break
    assert seen == expected
    assert seen[-1] == (pytest.approx(0.5 / 25 / 1e4) if updates > 1 else 0.5)


def test_torn_out_of_an_update_it_goes_on_from_its_own_checkpoint(tmp_path: Path) -> None:
    """The schedule has changed the optimizer since; that is no change of the description."""
    run = trainer(tmp_path, epochs=2, checkpoint_every=1)
    heard, left = run.model.forward, 6

    def forward(x: torch.Tensor) -> torch.Tensor:
        nonlocal left
        left -= 1
        if not left:
            raise ZeroDivisionError
        scores: torch.Tensor = heard(x)
        return scores

    run.model.forward = forward
    with pytest.raises(ZeroDivisionError):
        run.fit()
    run.fit()
    assert run.step == 10
    whole = trainer(tmp_path / "whole", epochs=2, checkpoint_every=1)
    whole.fit()
    assert all(map(torch.equal, run.model.state_dict().values(), whole.model.state_dict().values()))
