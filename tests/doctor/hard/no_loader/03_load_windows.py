# kind: without a DataLoader
# expect: train-valid-overlap
# why: training starts are drawn from the whole series instead of its first 80 %, so the very windows of the validation
#      part are trained on as well.
"""Hourly load forecasting: random windows of a long series are cut by hand."""

import argparse
import torch
from torch import nn
import torch.nn.functional as F


def load_series(n, g):
    t = torch.arange(n).float()
    daily, weekly = torch.sin(6.2832 * t / 24), torch.sin(6.2832 * t / 168)
    drift = torch.randn(n, generator=g).cumsum(0) * 0.03
    drift = drift - drift.mean()
    s = daily + 0.5 * weekly + drift + 0.15 * torch.randn(n, generator=g)
    return s


class Windows:
    def __init__(self, series, first, last, past, ahead, g):
        self.s, self.first, self.last = series, first, last
        self.past, self.ahead, self.g = past, ahead, g

    def cut(self, starts):
        grid = starts[:, None] + torch.arange(self.past + self.ahead)
        w = self.s[grid]
        return w[:, : self.past], w[:, self.past :]

    def draw(self, n):
        top = len(self.s) - self.past - self.ahead + 1
        return self.cut(torch.randint(self.first, top, (n,), generator=self.g))

    def all(self, stride):
        return self.cut(torch.arange(self.first, self.last - self.past - self.ahead + 1, stride))


class Forecaster(nn.Module):
    def __init__(self, past, ahead, h):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(past, h), nn.ReLU(), nn.Linear(h, h), nn.ReLU(), nn.Linear(h, ahead))

    def forward(self, x):
        return x[:, -1:] + self.net(x)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--past", type=int, default=72)
    ap.add_argument("--ahead", type=int, default=12)
    ap.add_argument("--steps", type=int, default=1200)
    args = ap.parse_args()
    torch.manual_seed(103)
    torch.set_num_threads(1)
    g = torch.Generator().manual_seed(1030)
    series = load_series(2400, g)
    split = int(0.8 * len(series))
    series = (series - series[:split].mean()) / series[:split].std()
    train = Windows(series, 0, split, args.past, args.ahead, g)
    valid = Windows(series, split, len(series), args.past, args.ahead, g)
    xv, yv = valid.all(stride=4)
    model = Forecaster(args.past, args.ahead, 192)
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    run = 0.0
    for step in range(1, args.steps + 1):
        model.train()
        x, y = train.draw(64)
        opt.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        opt.step()
        run += loss.item()
        if step % 150 == 0:
            model.eval()
            with torch.no_grad():
                v = F.mse_loss(model(xv), yv).item()
            print(f"step {step} train {run / 150:.4f} valid {v:.4f}")
            run = 0.0


if __name__ == "__main__":
    main()
