"""What a line of the log says beside the loss: the momentum that a schedule moves, and the memory that is taken."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim.lr_scheduler import OneCycleLR

from instep import OneCycle, Trainer
from instep.data.device import memory_bytes


def trained(optimizer: Any, schedule: Any = None, folder: Path | None = None) -> Trainer:
    x = torch.linspace(-1, 1, 64).view(32, 2)
    model = nn.Linear(2, 1)
    trainer = Trainer(
        model,
        loss=nn.functional.mse_loss,
        optimizer=optimizer(model.parameters()),
        schedule=schedule,
        train=(x, x.sum(1, keepdim=True)),
        epochs=2,
        batch_size=8,
        log_every=1,
        folder=folder,
        progress=False,
    )
    trainer.fit()
    return trainer


def sgd(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.01, momentum=0.9)


def adam(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters, lr=0.01)


@pytest.mark.parametrize("optimizer", [sgd, adam])
def test_the_momentum_is_that_of_the_update(optimizer: Any) -> None:
    schedule = OneCycle(max_lr=0.1)
    curve = schedule.momentum_curve(8)
    assert curve is not None
    found = trained(optimizer, schedule).history.column("momentum")
    assert found == [curve(position) for position in range(8)]


@pytest.mark.parametrize("optimizer", [sgd, adam])
def test_so_it_is_with_torchs_scheduler(optimizer: Any) -> None:
    def build(used: torch.optim.Optimizer, total_steps: int) -> OneCycleLR:
        return OneCycleLR(used, max_lr=0.1, total_steps=total_steps + 1)

    parameter = nn.Parameter(torch.zeros(1))
    used = optimizer([parameter])
    scheduler, expected = build(used, 8), []
    for _ in range(8):
        group = used.param_groups[0]
        expected.append(group["betas"][0] if "betas" in group else group["momentum"])
        parameter.grad = torch.zeros(1)
        used.step()
        scheduler.step()
    assert trained(optimizer, build).history.column("momentum") == expected


@pytest.mark.parametrize("schedule", [None, OneCycle(max_lr=0.1, momentum=None), lambda position: 0.1])
def test_a_momentum_that_nobody_moves_is_not_said(schedule: Any) -> None:
    assert "momentum" not in trained(sgd, schedule).history.names


def test_the_memory_stands_under_the_clock() -> None:
    rows = trained(sgd).history.updates
    taken = [row["clock"]["memory_bytes"] for row in rows]
    assert all(10_000_000 < one < 10**12 for one in taken)


def test_a_device_that_says_nothing_has_none() -> None:
    assert memory_bytes(torch.device("meta")) is None


def test_run_json_names_the_machine(tmp_path: Path) -> None:
    assert "CPU" in trained(sgd, folder=tmp_path / "run").run.describe()["machine"]
