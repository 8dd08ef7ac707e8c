# kind: frameworks
# expect: best-weights-aliased
# why: Snapshot keeps model.state_dict() itself, whose tensors are the live parameters; the "best" weights put back before the
#      test are those of the last step.
"""Day-ahead load forecast with a Lightning Fabric loop; the best epoch is tested at the end."""
from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from lightning.fabric import Fabric
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

HISTORY, HORIZON = 72, 24


@dataclass
class Snapshot:
    """The weights of the epoch with the lowest validation error."""

    error: float = float("inf")
    epoch: int = -1
    state: dict[str, Any] = field(default_factory=dict)

    def offer(self, error: float, epoch: int, model: nn.Module) -> bool:
        if error >= self.error:
            return False
        self.error, self.epoch = error, epoch
        self.state = {"epoch": epoch, "model": model.state_dict()}
        return True

    def restore(self, model: nn.Module) -> None:
        model.load_state_dict(self.state["model"])


class Forecaster(nn.Module):
    def __init__(self, width: int = 48) -> None:
        super().__init__()
        self.rnn = nn.LSTM(1, width, batch_first=True)
        self.head = nn.Sequential(nn.Linear(width, 128), nn.ReLU(), nn.Linear(128, HORIZON))

    def forward(self, history: Tensor) -> Tensor:
        _, (hidden, _) = self.rnn(history.unsqueeze(-1))
        return self.head(hidden[-1])


def make_load(days: int, gen: torch.Generator) -> Tensor:
    hours = torch.arange(days * 24).float()
    daily = torch.sin(2 * math.pi * hours / 24) + 0.4 * torch.sin(4 * math.pi * hours / 24 + 0.7)
    weekly = 0.6 * torch.sin(2 * math.pi * hours / 168)
    shocks = torch.randn(len(hours), generator=gen)
    drift = torch.zeros(len(hours))
    for t in range(1, len(hours)):
        drift[t] = 0.95 * drift[t - 1] + 0.15 * shocks[t]
    return 300 + 60 * (daily + weekly + drift)


def windows(series: Tensor, stride: int) -> TensorDataset:
    pieces = series.unfold(0, HISTORY + HORIZON, stride)
    return TensorDataset(pieces[:, :HISTORY].contiguous(), pieces[:, HISTORY:].contiguous())


def build_loaders(gen: torch.Generator) -> list[DataLoader]:
    series = make_load(220, gen)
    train, valid, test = series[: 150 * 24], series[150 * 24: 185 * 24], series[185 * 24:]
    mean, std = train.mean(), train.std()
    train, valid, test = ((part - mean) / std for part in (train, valid, test))
    return [DataLoader(windows(train, 3), batch_size=32, shuffle=True, drop_last=True),
            DataLoader(windows(valid, 6), batch_size=64), DataLoader(windows(test, 6), batch_size=64)]


@torch.no_grad()
def error_of(model: nn.Module, loader: Any) -> float:
    model.eval()
    total, count = 0.0, 0
    for history, future in loader:
        total += F.mse_loss(model(history), future, reduction="sum").item()
        count += future.numel()
    model.train()
    return total / count


def train(fabric: Fabric, epochs: int = 12, lr: float = 5e-3) -> None:
    gen = torch.Generator().manual_seed(17)
    loaders = build_loaders(gen)
    train_loader, valid_loader, test_loader = fabric.setup_dataloaders(*loaders)
    model = Forecaster()
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    model, optimizer = fabric.setup(model, optimizer)
    best = Snapshot()

    for epoch in range(epochs):
        model.train()
        running = 0.0
        for history, future in train_loader:
            optimizer.zero_grad()
            loss = F.mse_loss(model(history), future)
            fabric.backward(loss)
            fabric.clip_gradients(model, optimizer, max_norm=1.0)
            optimizer.step()
            running += loss.item()
        error = error_of(model, valid_loader)
        mark = " *" if best.offer(error, epoch, model) else ""
        fabric.print(f"epoch {epoch:2d} train {running / len(train_loader):.4f} valid {error:.4f}{mark}")

    best.restore(model)
    fabric.print(f"best epoch {best.epoch}, test error {error_of(model, test_loader):.4f}")


def main() -> None:
    torch.set_num_threads(1)
    fabric = Fabric(accelerator="cpu", devices=1)
    fabric.launch()
    fabric.seed_everything(17)
    train(fabric)


if __name__ == "__main__":
    main()
