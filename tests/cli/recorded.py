"""A run to look at, as `instep train` leaves it."""

import json
from pathlib import Path
from typing import Any

from cli.said import Instep

# A file to train: three kinds from a frame, or from a frame and its target beside it.
KINDS = """
    import pandas, torch
    from torch import nn
    from instep import Trainer
    from instep.data import source

    def build(pair: bool = False):
        numbers = torch.randn(32, 2, generator=torch.Generator().manual_seed(0)).numpy()
        kinds = pandas.Categorical(["new", "old", "used", "old"] * 8)
        table = pandas.DataFrame({"a": numbers[:, 0], "b": numbers[:, 1], "kind": kinds})
        train = (table[["a", "b"]], table["kind"]) if pair else source(table, target="kind")
        model = nn.Linear(2, 3)
        return Trainer(model, loss=nn.functional.cross_entropy, optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
                       train=train, valid=0.25, metrics="f1_per_class", epochs=1, batch_size=8)
"""


def trained(instep: Instep, *options: str, file: str = "my.py", folder: str = "runs/my") -> Path:
    """Train a file; the run that is left."""
    said = instep("train", file, "--folder", folder, "--no-progress", *options)
    assert said.code == 0, said.err
    return Path(folder)


def described(run: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((run / "run.json").read_text())
    return found


def describe(run: Path, **changes: object) -> None:
    """Change what a run says of itself; None takes a part out."""
    told = {name: value for name, value in (described(run) | changes).items() if value is not None}
    (run / "run.json").write_text(json.dumps(told))
