# kind: numbers
# expect: lambda-absolute-lr
# why: the hand-written schedule gives the learning rate itself and LambdaLR multiplies it by the optimizer's
#   lr once more, so the peak is the square of what was planned.
import math

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

config = {
    "seed": 2,
    "history": 72,
    "horizon": 24,
    "channels": 24,
    "batch_size": 48,
    "epochs": 8,
    "optim": {"lr": 0.01, "floor": 1e-4, "warmup": 30},
}


def grid_load(hours, rng):
    t = np.arange(hours)
    daily = np.sin(2 * np.pi * t / 24 - 1.0) + 0.4 * np.sin(4 * np.pi * t / 24)
    weekly = np.where((t // 24) % 7 < 5, 1.0, 0.65)
    drift = np.cumsum(rng.normal(size=hours)) * 0.03
    return (500 + 120 * daily * weekly + 30 * drift + 12 * rng.normal(size=hours)).astype(np.float32)


def to_windows(series, history, horizon):
    span = np.lib.stride_tricks.sliding_window_view(series, history + horizon)
    span = torch.from_numpy(span.copy())
    return span[:, None, :history], span[:, history:]


class Pyramid(nn.Module):
    def __init__(self, history, horizon, channels):
        super().__init__()
        self.convs = nn.Sequential(
            nn.Conv1d(1, channels, 5, stride=2, padding=2), nn.GELU(),
            nn.Conv1d(channels, channels, 5, stride=2, padding=2), nn.GELU(),
            nn.Conv1d(channels, channels, 3, stride=2, padding=1), nn.GELU(),
        )
        self.head = nn.Linear(channels * (history // 8), horizon)

    def forward(self, x):
        return self.head(self.convs(x).flatten(1))


def make_schedule(total, lr, floor, warmup):
    def at(step):
        if step < warmup:
            return lr * (step + 1) / warmup
        done = (step - warmup) / max(1, total - warmup)
        return floor + 0.5 * (lr - floor) * (1 + math.cos(math.pi * min(done, 1.0)))
    return at


def pinball(pred, target, quantile=0.5):
    err = target - pred
    return torch.maximum(quantile * err, (quantile - 1) * err).mean()


def main(cfg):
    torch.set_num_threads(1)
    torch.manual_seed(cfg["seed"])
    series = grid_load(2700, np.random.default_rng(cfg["seed"]))
    split = 2100
    mean, std = series[:split].mean(), series[:split].std()
    series = (series - mean) / std
    train = TensorDataset(*to_windows(series[:split], cfg["history"], cfg["horizon"]))
    valid = TensorDataset(*to_windows(series[split:], cfg["history"], cfg["horizon"]))
    train_loader = DataLoader(train, batch_size=cfg["batch_size"], shuffle=True)
    valid_loader = DataLoader(valid, batch_size=128)

    model = Pyramid(cfg["history"], cfg["horizon"], cfg["channels"])
    optimizer = torch.optim.NAdam(model.parameters(), lr=cfg["optim"]["lr"])
    schedule = make_schedule(cfg["epochs"] * len(train_loader), **cfg["optim"])
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lr_lambda=schedule)

    for epoch in range(cfg["epochs"]):
        model.train()
        total = 0.0
        for x, y in train_loader:
            optimizer.zero_grad()
            loss = pinball(model(x), y)
            loss.backward()
            optimizer.step()
            scheduler.step()
            total += loss.item() * len(x)
        model.eval()
        err = 0.0
        with torch.no_grad():
            for x, y in valid_loader:
                err += (model(x) - y).abs().mean(1).sum().item()
        print(f"epoch {epoch} pinball {total / len(train):.4f} valid mae {err / len(valid):.4f}")


main(config)
