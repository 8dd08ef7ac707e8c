# kind: without a DataLoader
# expect: schedule-wrong-unit
# why: The cosine is planned for 14 rounds, but the ticking() wrapper calls its step after every batch of the window
#      generator, 24 times a round: the learning rate swings up and down dozens of times.
import math

import numpy as np
import torch
from torch import nn

CONFIG = {
    "seed": 2, "hours": 24 * 420, "past": 72, "ahead": 12, "batch": 48,
    "batches_per_round": 24, "rounds": 14, "lr": 2e-3, "hidden": 64,
}


def load_curve(hours, rng):
    t = np.arange(hours)
    day = 1.2 * np.sin(2 * np.pi * t / 24) + 0.5 * np.sin(4 * np.pi * t / 24 + 1)
    week = 0.6 * ((t // 24) % 7 < 5)
    drift = np.zeros(hours)
    for k in range(1, hours):
        drift[k] = 0.97 * drift[k - 1] + rng.normal(0, 0.12)
    return 40 + 9 * (day + week + drift + 0.15 * rng.normal(size=hours))


def random_windows(series, past, ahead, batch, count, rng):
    last = len(series) - past - ahead
    for _ in range(count):
        starts = rng.integers(0, last + 1, size=batch)
        rows = series[starts[:, None] + np.arange(past + ahead)]
        yield torch.from_numpy(rows[:, :past]), torch.from_numpy(rows[:, past:])


def fixed_windows(series, past, ahead, stride):
    starts = np.arange(0, len(series) - past - ahead + 1, stride)
    rows = series[starts[:, None] + np.arange(past + ahead)]
    return torch.from_numpy(rows[:, :past]), torch.from_numpy(rows[:, past:])


def ticking(source, *hooks):
    """Passes items on; when the consumer is done with one, the hooks run."""
    for item in source:
        yield item
        for hook in hooks:
            hook()


class Meter:
    def __init__(self):
        self.sum, self.n = 0.0, 0

    def add(self, value, n):
        self.sum, self.n = self.sum + value * n, self.n + n

    def mean(self):
        return self.sum / max(self.n, 1)


def build(c):
    return nn.Sequential(
        nn.Linear(c["past"], c["hidden"]), nn.ReLU(), nn.Dropout(0.05),
        nn.Linear(c["hidden"], c["hidden"]), nn.ReLU(),
        nn.Linear(c["hidden"], c["ahead"]),
    )


def main(c):
    torch.set_num_threads(1)
    torch.manual_seed(c["seed"])
    rng = np.random.default_rng(c["seed"])
    series = load_curve(c["hours"], rng)
    border = int(0.85 * len(series))
    mu, sd = series[:border].mean(), series[:border].std()
    series = ((series - mu) / sd).astype(np.float32)
    train = series[:border]
    valid_x, valid_y = fixed_windows(series[border:], c["past"], c["ahead"], 6)

    model = build(c)
    criterion = nn.L1Loss()
    opt = torch.optim.AdamW(model.parameters(), lr=c["lr"])
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=c["rounds"], eta_min=c["lr"] * 0.01)

    for r in range(c["rounds"]):
        model.train()
        meter = Meter()
        source = random_windows(train, c["past"], c["ahead"], c["batch"], c["batches_per_round"], rng)
        for x, y in ticking(source, schedule.step):
            opt.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            opt.step()
            meter.add(loss.item(), len(x))
        model.eval()
        with torch.no_grad():
            v = criterion(model(valid_x), valid_y).item()
        print(f"round {r:2d} mae {meter.mean():.4f} valid {v:.4f} ({v * sd:.2f} MW)")
        assert math.isfinite(v)


if __name__ == "__main__":
    main(CONFIG)
