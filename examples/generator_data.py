"""Data from a generator: samples that come one after another, with no length and no `data[i]`.

    python examples/generator_data.py

A function that returns an iterator is called again for each pass. `steps_per_epoch` says what an epoch is, since the stream has
no end. An object with `state_dict()` and `load_state_dict()` is resumed where it stopped; this one is.
"""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss
from torch.utils.data import IterableDataset

from instep import OneCycle, Trainer, data


class Waves(IterableDataset[tuple[Tensor, Tensor]]):
    """Endless: twelve values of a wave, and the one that comes next."""

    def __init__(self) -> None:
        self.generator, self.given = torch.Generator().manual_seed(0), 0

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        while True:
            phase, speed = torch.rand(2, generator=self.generator).tolist()
            wave = torch.sin(6.3 * phase + (0.2 + 0.5 * speed) * torch.arange(13.0))
            self.given += 1
            yield wave[:12], wave[12:]

    def state_dict(self) -> dict[str, Any]:
        return {"generator": self.generator.get_state(), "given": self.given}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.generator.set_state(state["generator"])
        self.given = state["given"]


def build(lr: float = 0.02, epochs: int = 4, folder: Path | None = None) -> Trainer:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(12, 32), nn.Tanh(), nn.Linear(32, 1))
    return Trainer(
        model,
        loss=mse_loss,
        optimizer=torch.optim.AdamW(model.parameters()),
        schedule=OneCycle(max_lr=lr),
        train=data.source(Waves(), steps_per_epoch=30),
        epochs=epochs,
        batch_size=32,
        folder=folder,
        progress=False,
    )


def main() -> None:
    whole = build()
    losses = [float(update.loss) for update in whole.updates()]
    print(f"loss from {losses[0]:.3f} to {losses[-1]:.4f} over {120 * 32:,} samples")
    with tempfile.TemporaryDirectory() as name:
        for update in build(folder=Path(name) / "run").updates():
            if update.step == 40:
                break  # or be killed
        resumed = build(folder=Path(name) / "run")
        resumed.fit()
    equal = all(torch.equal(a, b) for a, b in zip(whole.model.parameters(), resumed.model.parameters(), strict=True))
    print(f"stopped and resumed at step {resumed.resumed_from}: the same weights: {equal}")


if __name__ == "__main__":
    main()
