"""Regression from a table: columns by name, a column to predict, scaled inputs, new rows without the target.

python examples/regression.py
"""

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import torch
from torch import nn
from torch.nn.functional import mse_loss

from instep import OneCycle, Trainer, data


def houses(count: int = 600) -> pd.DataFrame:
    """Made up: what a house costs, in thousands."""
    random = np.random.default_rng(0)
    table = pd.DataFrame({"area": random.uniform(40, 200, count), "age": random.uniform(0, 80, count)})
    table["rooms"] = (table["area"] / 30 + random.normal(0, 0.7, count)).round().clip(1)
    table["price"] = 2.5 * table["area"] - 1.2 * table["age"] + 8 * table["rooms"] + random.normal(0, 10, count)
    return table


def build(lr: float = 0.05, epochs: int = 15) -> Trainer:
    torch.manual_seed(0)
    table = houses()
    table["price"] /= 100  # targets near 1 are learned quicker than targets near 400
    inputs = table.drop(columns="price")
    model = nn.Sequential(Standardise(inputs), nn.Linear(3, 32), nn.ReLU(), nn.Linear(32, 1), nn.Flatten(0))
    return Trainer(
        model,
        loss=mse_loss,
        optimizer=torch.optim.AdamW(model.parameters()),
        schedule=OneCycle(max_lr=lr),
        train=data.source(table, target="price"),
        valid=0.2,
        metrics=("mae", "r2"),
        epochs=epochs,
        batch_size=64,
        progress=False,
    )


class Standardise(nn.Module):
    """Takes off the mean and divides by the deviation of each column. As buffers they are in every checkpoint."""

    def __init__(self, table: pd.DataFrame) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor(table.mean().to_numpy(), dtype=torch.float32))
        self.register_buffer("deviation", torch.tensor(table.std().to_numpy(), dtype=torch.float32))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x - self.get_buffer("mean")) / self.get_buffer("deviation")


def main() -> None:
    trainer = build()
    trainer.fit()
    found = trainer.evaluate()
    print(f"r2 {found['valid/r2']:.3f}, off by {100 * found['valid/mae']:.0f} thousand on average")
    new = pd.DataFrame({"rooms": [3.0], "age": [10.0], "area": [90.0]})  # columns are found by name
    print(f"90 square metres, 10 years, 3 rooms: {100 * trainer.predict(new)[0]:.0f} thousand")


if __name__ == "__main__":
    main()
