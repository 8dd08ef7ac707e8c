"""A file to sweep, and what is left of a sweep: for tests with the real Optuna."""

import sqlite3
from pathlib import Path
from typing import Any

from instep.run.run_files import read_run

BUILD = '''
import torch
from torch import nn
from instep import Trainer


def build(lr: float = 0.1, width: int = 8, epochs: int = 9, seed: int = 0) -> Trainer:
    """Three of six numbers added up."""
    x = torch.randn(96, 6, generator=torch.Generator().manual_seed(5))
    y = (x[:, :3].sum(1) > 0).long()
    model = nn.Sequential(nn.Linear(6, width), nn.ReLU(), nn.Dropout(0.1), nn.Linear(width, 2))
    if width == 13:
        raise ValueError("13 is unlucky")
    return Trainer(
        model,
        loss=nn.functional.cross_entropy,
        optimizer=torch.optim.SGD(model.parameters(), lr=lr),
        train=(x, y),
        valid=0.25,
        epochs=epochs,
        batch_size=24,
        metrics="accuracy",
        checkpoint_every=None,
        seed=seed,
    )
'''


def weights_of(run: Path) -> bytes:
    """The newest weights of a run, as they are on the disk."""
    latest = (run / "checkpoints" / "LATEST").read_text().strip()
    return (run / "checkpoints" / latest / "model.safetensors").read_bytes()


def history_of(run: Path) -> list[dict[str, Any]]:
    return read_run(run).history.to_dicts(clock=False)


def stored_states(sweep: Path) -> dict[str, int]:
    """How many entries of each state the storage has."""
    with sqlite3.connect(sweep / "optuna.db") as database:
        return dict(database.execute("SELECT state, COUNT(*) FROM trials GROUP BY state").fetchall())
