"""A run that is trained in cycles, so small that a test can do it many times; and all that must be equal of two."""

import json
from pathlib import Path
from typing import Any

import torch
from torch import nn

from instep import Trainer, keys
from instep.tuning.cycles import Cycles
from tiny import CLASSES, FEATURES, TASKS

LENGTH = 10  # updates of a cycle: 2 epochs of 5


def trainer(folder: Path | None = None, **options: Any) -> Trainer:
    """Dropout and Adam, so that keys and the optimizer's state matter; a group with a tenth of the learning rate."""
    keys.seed_all(keys.for_build(1))
    model = nn.Sequential(nn.Linear(FEATURES, 16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, CLASSES))
    x, _ = TASKS[0].draw(80, seed=0, dtype=torch.float32)
    y = (x[:, 0] > 0).long() + 2 * (x[:, 1] > 0).long()
    groups: list[dict[str, Any]] = [{"params": model[0].parameters(), "lr": 1e-4}, {"params": model[3].parameters()}]
    options.setdefault("optimizer", torch.optim.Adam(groups, lr=1e-3))
    options.setdefault("valid", (x, y))
    options.setdefault("epochs", 2)
    options.setdefault("train", (x, y))
    return Trainer(model, loss=nn.functional.cross_entropy, batch_size=16, folder=folder, progress=False, **options)


def fitted(run: Trainer, **options: Any) -> Cycles:
    return run.fit_cycles(**{"max_cycles": 3, "steps": 30, "repeats": 1} | options)


def rows(folder: Path) -> list[dict[str, Any]]:
    lines = (folder / "history.jsonl").read_text().splitlines()
    return [{name: value for name, value in json.loads(line).items() if name != "clock"} for line in lines]


def result(run: Trainer, folder: Path) -> dict[str, Any]:
    last = folder / "checkpoints" / (folder / "checkpoints" / "LATEST").read_text().strip()
    return {
        "weights": {name: value.numpy().tobytes() for name, value in run.model.state_dict().items()},
        "history": rows(folder),
        "rows": run.history.to_dicts(clock=False),
        "checkpoint": {path.name: path.read_bytes() for path in sorted(last.iterdir())},
    }


def last(run: Trainer) -> dict[str, Any]:
    """The last row that the history says is one."""
    assert run.history.last is not None
    return run.history.last
