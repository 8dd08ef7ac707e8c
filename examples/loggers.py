"""A run with loggers: one of its own, which writes a line of JSON for each evaluation, and any that are named.

python examples/loggers.py [--folder PATH] [--logger csv --logger tensorboard …]
"""

import argparse
import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from instep import Trainer, data


class Evaluations:
    """Keeps the evaluations of a run in a file that other programs can follow."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def start(self, description: Mapping[str, Any]) -> int:
        self.path.write_text("")
        return 0  # all rows again, also those of a run that goes on

    def log(self, row: Mapping[str, Any]) -> None:
        if row["kind"] == "evaluation":
            said = {"step": row["step"], "accuracy": row["valid/accuracy"]}
            with self.path.open("a") as file:
                file.write(json.dumps(said) + "\n")

    def finish(self, state: str) -> None:
        with self.path.open("a") as file:
            file.write(json.dumps({"state": state}) + "\n")


def build(folder: Path, names: list[str]) -> Trainer:
    digits = data.digits()
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    return Trainer(
        model,
        loss=nn.functional.cross_entropy,
        optimizer=torch.optim.AdamW(model.parameters(), lr=1e-2),
        train=digits,
        valid=0.1,
        metrics="accuracy",
        epochs=3,
        folder=folder,
        loggers=[Evaluations(folder.with_suffix(".jsonl")), *names],
        progress=False,
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.mkdtemp()) / "digits")
    parser.add_argument("--logger", action="append", default=None, help="tensorboard, mlflow, wandb, trackio or csv")
    given = parser.parse_args()
    build(given.folder, given.logger or ["csv"]).fit()
    print(given.folder.with_suffix(".jsonl").read_text(), end="")
    print(f"see also {', '.join(sorted(path.name for path in given.folder.iterdir()))} in {given.folder}")
