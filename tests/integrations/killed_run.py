"""A run with all loggers that kills itself in the middle, with rows beyond its last checkpoint; started again, it ends.

python killed_run.py FOLDER [STEP]
"""

import os
import signal
import sys
import time
from collections.abc import Sequence

import torch
from torch import nn

from instep import Trainer
from instep.run.history import Row
from instep.run.loggers import RunLoggers

NAMES = ["tensorboard", "mlflow", "wandb", "trackio", "csv"]


def build(folder: str) -> Trainer:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    x, y = torch.rand(64, 1, 8, 8), torch.randint(10, (64,))
    return Trainer(
        model,
        loss=nn.functional.cross_entropy,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        train=(x, y),
        valid=(x[:16], y[:16]),
        metrics="accuracy",
        epochs=10,
        batch_size=16,
        evaluate_every=5,
        checkpoint_every=10,
        log_every=1,
        loggers=NAMES,
        folder=folder,
        progress=False,
    )


def wait_until_taken(loggers: RunLoggers, rows: Sequence[Row]) -> None:
    """Until all rows so far are where they belong; W&B and trackio write them a little later."""
    while any(thread.left(len(rows)) for thread in loggers._threads):
        loggers.feed(rows)  # to those that have started by now
        time.sleep(0.01)
    time.sleep(1.5)


if __name__ == "__main__":
    trainer, kill_at = build(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else None
    for update in trainer.updates():
        if kill_at is not None and update.step == kill_at - 3:
            wait_until_taken(trainer.run.loggers, trainer.history.rows)
        if update.step == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
    print(trainer.resumed_from, trainer.step)
