# kind: without a DataLoader
# expect: schedule-wrong-unit
# why: The warm-up and cosine horizons are counted in optimizer steps (epochs * steps_per_epoch) but Plan.advance() is called once per epoch, so in 10 epochs the rate climbs to about a sixth of its peak and never leaves the warm-up.
"""Demand forecasting on in-memory tensors with a warm-up plus cosine plan."""
import torch
from torch import nn
import torch.nn.functional as F
from torch.optim.lr_scheduler import CosineAnnealingLR, LinearLR, SequentialLR

torch.set_num_threads(1)
torch.manual_seed(31)

CFG = dict(lr=0.2, batch=64, epochs=10, warmup=0.25, window=24)


class Forecaster(nn.Module):
    def __init__(self, window, hidden=48):
        super().__init__()
        self.inp = nn.Linear(window, hidden)
        self.mid = nn.Linear(hidden, hidden)
        self.out = nn.Linear(hidden, 1)

    def forward(self, x):
        h = torch.tanh(self.inp(x))
        h = h + torch.tanh(self.mid(h))
        return self.out(h).squeeze(-1)


class Plan:
    """Warm-up then cosine decay over the whole run."""

    def __init__(self, optimizer, samples, cfg):
        horizon = cfg["epochs"] * (samples // cfg["batch"])
        warm = int(cfg["warmup"] * horizon)
        self.schedule = SequentialLR(optimizer, [
            LinearLR(optimizer, start_factor=0.01, total_iters=warm),
            CosineAnnealingLR(optimizer, T_max=horizon - warm),
        ], milestones=[warm])

    def advance(self):
        self.schedule.step()

    @property
    def rate(self):
        return self.schedule.get_last_lr()[0]


def make_series(length, g):
    t = torch.arange(length, dtype=torch.float32)
    level = torch.sin(2 * torch.pi * t / 24) + 0.5 * torch.sin(2 * torch.pi * t / 168)
    shock = torch.zeros(length)
    noise = 0.2 * torch.randn(length, generator=g)
    for i in range(1, length):
        shock[i] = 0.85 * shock[i - 1] + noise[i]
    return level + shock


def windows(series, size):
    w = series.unfold(0, size + 1, 1)
    return w[:, :-1].contiguous(), w[:, -1].contiguous()


def epoch_batches(n, size, g):
    order = torch.randperm(n, generator=g)
    return order[: n // size * size].split(size)


@torch.no_grad()
def evaluate(model, x, y):
    model.eval()
    mse = F.mse_loss(model(x), y).item()
    model.train()
    return mse


def main():
    g = torch.Generator().manual_seed(6)
    series = make_series(2400, g)
    xt, yt = windows(series[:1800], CFG["window"])
    xv, yv = windows(series[1800:], CFG["window"])
    model = Forecaster(CFG["window"])
    opt = torch.optim.SGD(model.parameters(), lr=CFG["lr"])
    plan = Plan(opt, len(xt), CFG)

    for epoch in range(CFG["epochs"]):
        total, count = 0.0, 0
        for idx in epoch_batches(len(xt), CFG["batch"], g):
            opt.zero_grad()
            loss = F.mse_loss(model(xt[idx]), yt[idx])
            loss.backward()
            opt.step()
            total, count = total + loss.item(), count + 1
        plan.advance()
        if (epoch + 1) % 2 == 0:
            print(f"epoch {epoch + 1:2d} lr {plan.rate:.4f} train {total / count:.4f} "
                  f"valid {evaluate(model, xv, yv):.4f}")


if __name__ == "__main__":
    main()
