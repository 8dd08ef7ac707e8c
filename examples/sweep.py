"""A sweep over the learning rate, the width and the dropout of a small network on handwritten digits.

Each trial is a run in runs/sweep-sweep; Hyperband stops those that are behind, and they go on where they stopped once later ones
show that they were not. Stop it with Ctrl-C, or kill it, and start it again: it goes on. Needs Optuna:
pip install ".[sweep]"

    python examples/sweep.py [--trials 20] [--epochs 9] [--jobs 2]
    instep sweep examples/sweep.py lr=log:1e-4..1e-1 width=16,32,64 dropout=0..0.5 --pruner hyperband
"""

import argparse

import torch
from torch import nn

from instep import OneCycle, Trainer, data, sweep


def build(lr: float = 1e-2, width: int = 32, dropout: float = 0.1, epochs: int = 9, seed: int = 0) -> Trainer:
    """A network of one hidden layer."""
    x, y = data.digits()
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, width), nn.ReLU(), nn.Dropout(dropout), nn.Linear(width, 10))
    return Trainer(
        model,
        loss=nn.functional.cross_entropy,
        optimizer=torch.optim.AdamW(model.parameters()),
        schedule=OneCycle(max_lr=lr),
        train=(x[:1000], y[:1000]),
        valid=0.2,
        metrics="accuracy",
        epochs=epochs,
        batch_size=64,
        seed=seed,
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--epochs", type=int, default=9)
    parser.add_argument("--jobs", type=int, default=1)
    asked = parser.parse_args()
    result = sweep(
        build,
        {"lr": "log:1e-4..1e-1", "width": [16, 32, 64], "dropout": "0..0.5"},
        trials=asked.trials,
        fixed={"epochs": asked.epochs},
        metric="valid/accuracy",
        pruner="hyperband",
        jobs=asked.jobs,
    )
    print(result)
    print(f"\nreport: {result.folder / 'report.html'}")
