"""A run that is resumed with another number of torch's threads equals the one that never stopped, up to rounding."""

from pathlib import Path

import torch
from torch import Tensor, nn

from tiny import make, weights

X = torch.linspace(-1, 1, 96 * 400).reshape(96, 400).sin()
Y = torch.arange(96) % 4


def train(folder: Path | None, threads: int, last: int) -> Tensor:
    """A network so wide that its sums are divided between threads."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(400, 600), nn.Tanh(), nn.Dropout(0.2), nn.Linear(600, 4))
    trainer = make(model, train=(X, Y), folder=folder, batch_size=32, epochs=2)
    torch.set_num_threads(threads)
    for update in trainer.updates():
        if update.step == last:
            break
    return weights(model)


def test_one_thread_then_two(tmp_path: Path) -> None:
    found = torch.get_num_threads()
    try:
        alone = train(None, 1, 99)
        train(tmp_path / "run", 1, 2)
        resumed = train(tmp_path / "run", 2, 99)
    finally:
        torch.set_num_threads(found)
    torch.testing.assert_close(resumed, alone, rtol=1e-4, atol=1e-6)
