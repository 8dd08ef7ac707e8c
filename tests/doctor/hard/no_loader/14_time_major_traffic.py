# kind: without a DataLoader
# expect: nothing
# like: batch-first
# why: the LSTM has no batch_first and the first axis is the longer one (48 against 24), but the sampler stacks windows time
#      first, so the axes are what the layer expects: 48 hours of 24 sensors.
"""Traffic forecasting: time-major windows of many sensors, next hour for each position of the window."""
import argparse
import torch
from torch import nn
import torch.nn.functional as F


def sensors(count, hours, g):
    t = torch.arange(hours).float()[:, None]
    phase = 6.28 * torch.rand(1, count, generator=g)
    amp = 0.6 + 0.8 * torch.rand(1, count, generator=g)
    x = amp * torch.sin(6.2832 * t / 24 + phase) + 0.4 * torch.sin(6.2832 * t / 12 + 2 * phase)
    noise = torch.randn(hours, count, generator=g) * 0.1
    for i in range(1, hours):
        noise[i] += 0.8 * noise[i - 1]
    return x + noise


class TimeMajor:
    """Windows as (hours, sensors of the batch, features)."""

    def __init__(self, series, window, g):
        self.s, self.window, self.g = series, window, g
        self.clock = torch.arange(len(series)).float() * 6.2832 / 24

    def draw(self, batch):
        start = int(torch.randint(0, len(self.s) - self.window, (1,), generator=self.g))
        who = torch.randperm(self.s.shape[1], generator=self.g)[:batch]
        rows = slice(start, start + self.window)
        hour = self.clock[rows, None].expand(-1, batch)
        x = torch.stack([self.s[rows][:, who], hour.sin(), hour.cos()], 2)
        return x, self.s[start + 1:start + self.window + 1][:, who]


class Forecaster(nn.Module):
    def __init__(self, h):
        super().__init__()
        self.rnn = nn.LSTM(3, h)
        self.out = nn.Linear(h, 1)

    def forward(self, x):
        return self.out(self.rnn(x)[0]).squeeze(2)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=500)
    ap.add_argument("--window", type=int, default=48)
    ap.add_argument("--batch", type=int, default=24)
    args = ap.parse_args()
    torch.manual_seed(114)
    torch.set_num_threads(1)
    g = torch.Generator().manual_seed(1140)
    series = sensors(120, 24 * 60, g)
    cut = 24 * 48
    series = (series - series[:cut].mean()) / series[:cut].std()
    train = TimeMajor(series[:cut], args.window, g)
    fixed = TimeMajor(series[cut:], args.window, torch.Generator().manual_seed(8))
    held = [fixed.draw(args.batch) for _ in range(12)]
    model = Forecaster(32)
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    run = 0.0
    for step in range(1, args.steps + 1):
        model.train()
        x, y = train.draw(args.batch)
        opt.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        run += loss.item()
        if step % 50 == 0:
            model.eval()
            with torch.no_grad():
                v = sum(F.mse_loss(model(a), b).item() for a, b in held) / len(held)
            print(f"step {step} train {run / 50:.4f} held-out {v:.4f}")
            run = 0.0


if __name__ == "__main__":
    main()
