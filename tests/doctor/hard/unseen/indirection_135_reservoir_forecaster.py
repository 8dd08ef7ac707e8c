# kind: indirection
# expect: clip-of-nothing
# why: The trainer keeps filter(...) over the parameters, an iterator that the optimizer's constructor uses up, so the clipping callback is given no parameters in every step.
"""Reservoir level forecaster with a callback trainer."""
from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset


@dataclass
class Config:
    history: int = 36
    ahead: int = 6
    hidden: int = 40
    epochs: int = 8
    batch: int = 64
    lr: float = 3e-3
    max_norm: float = 0.25
    seed: int = 19


def simulate(days: int, rng: np.random.Generator) -> np.ndarray:
    t = np.arange(days)
    rain = rng.gamma(0.4, 1.0, days) * (1 + 0.7 * np.sin(2 * np.pi * t / 365))
    level = np.zeros(days)
    for i in range(1, days):
        release = 0.06 * level[i - 1] + 0.15 * (t[i] % 7 < 5)
        level[i] = max(0.0, level[i - 1] + rain[i] - release)
    return np.stack([level, rain, np.sin(2 * np.pi * t / 365), np.cos(2 * np.pi * t / 365), t % 7 < 5], 1).astype(np.float32)


class Windows(Dataset):
    def __init__(self, table: Tensor, history: int, ahead: int) -> None:
        self.table, self.history, self.ahead = table, history, ahead

    def __len__(self) -> int:
        return len(self.table) - self.history - self.ahead + 1

    def __getitem__(self, i: int) -> tuple[Tensor, Tensor]:
        middle = i + self.history
        return self.table[i:middle], self.table[middle:middle + self.ahead, 0]


class Forecaster(nn.Module):
    def __init__(self, inputs: int, cfg: Config) -> None:
        super().__init__()
        self.calendar = nn.Linear(inputs, inputs)
        self.calendar.requires_grad_(False)
        nn.init.eye_(self.calendar.weight)
        nn.init.zeros_(self.calendar.bias)
        self.gru = nn.GRU(inputs, cfg.hidden, batch_first=True)
        self.head = nn.Sequential(nn.Linear(cfg.hidden, cfg.hidden), nn.ReLU(), nn.Linear(cfg.hidden, cfg.ahead))

    def forward(self, x: Tensor) -> Tensor:
        hidden, _ = self.gru(self.calendar(x))
        return x[:, -1:, 0] + self.head(hidden[:, -1])


class Callback:
    def after_backward(self, trainer: Trainer) -> None: ...
    def after_epoch(self, trainer: Trainer, loss: float) -> None: ...


@dataclass
class GradientClip(Callback):
    max_norm: float

    def after_backward(self, trainer: Trainer) -> None:
        nn.utils.clip_grad_norm_(trainer.trainable, self.max_norm)


@dataclass
class Report(Callback):
    loader: DataLoader
    history: list[float] = field(default_factory=list)

    def after_epoch(self, trainer: Trainer, loss: float) -> None:
        self.history.append(trainer.evaluate(self.loader))
        print(f"epoch {trainer.epoch} train {loss:.4f} valid rmse {self.history[-1]:.4f} lr {trainer.opt.param_groups[0]['lr']:.2e}")


class Trainer:
    def __init__(self, model: nn.Module, cfg: Config, callbacks: list[Callback]) -> None:
        self.model, self.cfg, self.callbacks, self.epoch = model, cfg, callbacks, 0
        self.trainable = filter(lambda p: p.requires_grad, model.parameters())
        self.opt = torch.optim.AdamW(self.trainable, lr=cfg.lr, weight_decay=1e-3)
        self.sched = torch.optim.lr_scheduler.CosineAnnealingLR(self.opt, T_max=cfg.epochs)

    def fit(self, loader: DataLoader) -> None:
        for self.epoch in range(self.cfg.epochs):
            self.model.train()
            total, count = 0.0, 0
            for x, y in loader:
                self.opt.zero_grad()
                loss = F.mse_loss(self.model(x), y)
                loss.backward()
                for callback in self.callbacks:
                    callback.after_backward(self)
                self.opt.step()
                total += loss.item() * len(x)
                count += len(x)
            self.sched.step()
            for callback in self.callbacks:
                callback.after_epoch(self, total / count)

    @torch.no_grad()
    def evaluate(self, loader: DataLoader) -> float:
        self.model.eval()
        total, count = 0.0, 0
        for x, y in loader:
            total += F.mse_loss(self.model(x), y, reduction="sum").item()
            count += y.numel()
        return (total / count) ** 0.5


def main() -> None:
    cfg = Config()
    torch.set_num_threads(1)
    torch.manual_seed(cfg.seed)
    table = torch.from_numpy(simulate(3600, np.random.default_rng(cfg.seed)))
    cut = 2900
    mean, std = table[:cut].mean(0), table[:cut].std(0)
    table = (table - mean) / std
    train = Windows(table[:cut], cfg.history, cfg.ahead)
    valid = Windows(table[cut:], cfg.history, cfg.ahead)
    report = Report(DataLoader(valid, batch_size=128))
    trainer = Trainer(Forecaster(table.shape[1], cfg), cfg, [GradientClip(cfg.max_norm), report])
    trainer.fit(DataLoader(train, batch_size=cfg.batch, shuffle=True))
    print(f"best valid rmse {min(report.history):.4f}")


if __name__ == "__main__":
    main()
