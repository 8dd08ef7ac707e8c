# kind: numbers
# expect: nothing
# like: clip-before-unscale
# why: gradients are clipped while still scaled, but the threshold is multiplied by the same scale, which
#   is the same as clipping the unscaled ones; the scaler unscales in its step.
import numpy as np
import torch
from torch import nn

torch.set_num_threads(1)
SEED, PAST, AHEAD = 404, 48, 12


def demand_series(n_shops=40, days=260):
    rng = np.random.default_rng(SEED)
    t = np.arange(days)
    week = rng.normal(size=(n_shops, 7))[:, t % 7]
    season = np.sin(2 * np.pi * (t[None] / rng.uniform(25, 45, size=(n_shops, 1)) + rng.random((n_shops, 1))))
    level = rng.uniform(20, 80, size=(n_shops, 1))
    return (level + 8 * week + 12 * season + 2 * rng.normal(size=(n_shops, days))).astype(np.float32)


def cut_windows(series, first, last):
    rows = [series[:, s:s + PAST + AHEAD] for s in range(first, last - PAST - AHEAD + 1, 2)]
    w = torch.from_numpy(np.concatenate(rows))
    return w[:, :PAST], w[:, PAST:]


series = demand_series()
border = 190
mean = series[:, :border].mean(1, keepdims=True)
std = series[:, :border].std(1, keepdims=True)
series = (series - mean) / std
train_x, train_y = cut_windows(series, 0, border)
valid_x, valid_y = cut_windows(series, border, series.shape[1])

torch.manual_seed(SEED)


class Forecaster(nn.Module):
    def __init__(self, width=96):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(PAST, width), nn.GELU(), nn.LayerNorm(width),
                                   nn.Linear(width, width), nn.GELU())
        self.skip = nn.Linear(PAST, AHEAD)
        self.head = nn.Linear(width, AHEAD)

    def forward(self, x):
        return self.head(self.trunk(x)) + self.skip(x)


def huber(pred, target, delta=1.0):
    err = (pred.float() - target).abs()
    return torch.where(err < delta, 0.5 * err ** 2, delta * (err - 0.5 * delta)).mean()


model = Forecaster()
optimizer = torch.optim.AdamW(model.parameters(), lr=1.5e-3, weight_decay=0.02)
scaler = torch.amp.GradScaler("cpu", init_scale=4096.0)
MAX_NORM = 0.5


def half_precision():
    return torch.autocast("cpu", dtype=torch.float16)


for epoch in range(6):
    model.train()
    total = 0.0
    for idx in torch.randperm(len(train_x)).split(64):
        optimizer.zero_grad()
        with half_precision():
            pred = model(train_x[idx])
        loss = huber(pred, train_y[idx])
        scaler.scale(loss).backward()
        nn.utils.clip_grad_norm_(model.parameters(), MAX_NORM * scaler.get_scale())
        scaler.step(optimizer)
        scaler.update()
        total += loss.item() * len(idx)
    model.eval()
    with torch.no_grad(), half_precision():
        pred = model(valid_x)
    mae = (pred.float() - valid_y).abs().mean().item()
    print(f"epoch {epoch} huber {total / len(train_x):.4f} valid mae {mae:.4f} scale {scaler.get_scale():.0f}")
