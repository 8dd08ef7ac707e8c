# kind: no_loader
# expect: future-leaks
# why: The convolutions are padded on the left only, but GroupNorm(1, C) takes its mean and variance over the whole window, so the
#      forecast at each position depends on later positions, which hold its own target.
"""One-step-ahead load forecasting at every position of a window with a dilated causal TCN."""
import argparse
import math

import torch
import torch.nn.functional as F
from torch import nn


class CausalConv(nn.Conv1d):
    def __init__(self, inputs, outputs, kernel, dilation):
        super().__init__(inputs, outputs, kernel, dilation=dilation)
        self.left = (kernel - 1) * dilation

    def forward(self, x):
        return super().forward(F.pad(x, (self.left, 0)))


class Block(nn.Module):
    def __init__(self, channels, dilation, dropout):
        super().__init__()
        self.conv = CausalConv(channels, channels, 3, dilation)
        self.norm = nn.GroupNorm(1, channels)
        self.mix = nn.Conv1d(channels, channels, 1)
        self.drop = nn.Dropout(dropout)

    def forward(self, x):
        return x + self.mix(self.drop(F.gelu(self.norm(self.conv(x)))))


class TCN(nn.Module):
    """(batch, time, features) -> (batch, time): the forecast for t + 1 made at t."""

    def __init__(self, features, channels=24, dilations=(1, 2, 4, 8), dropout=0.05):
        super().__init__()
        self.stem = nn.Conv1d(features, channels, 1)
        self.blocks = nn.Sequential(*[Block(channels, d, dropout) for d in dilations])
        self.head = nn.Conv1d(channels, 1, 1)

    def forward(self, x):
        return self.head(self.blocks(self.stem(x.transpose(1, 2)))).squeeze(1)


def simulate_load(hours, gen):
    t = torch.arange(hours, dtype=torch.float32)
    level, drift = torch.zeros(hours), 0.0
    noise = torch.randn(hours, generator=gen)
    for i in range(1, hours):
        drift = 0.97 * drift + 0.25 * noise[i].item()
        level[i] = drift
    daily, weekly = torch.sin(2 * math.pi * t / 24), torch.sin(2 * math.pi * t / 168)
    load = 2 * daily + weekly + level + 0.3 * torch.randn(hours, generator=gen)
    clock = torch.stack([daily, torch.cos(2 * math.pi * t / 24)], dim=1)
    return load, clock


class Windows:
    """Draws windows of one series; the statistics for scaling come from the training part."""

    def __init__(self, load, clock, length, mean, std):
        self.load, self.clock, self.length = (load - mean) / std, clock, length

    def at(self, starts):
        idx = starts.unsqueeze(1) + torch.arange(self.length)
        x = torch.cat([self.load[idx].unsqueeze(-1), self.clock[idx]], dim=-1)
        return x, self.load[idx + 1]

    def draw(self, n, gen):
        return self.at(torch.randint(0, len(self.load) - self.length - 1, (n,), generator=gen))

    def all(self, stride):
        return self.at(torch.arange(0, len(self.load) - self.length - 1, stride))


def set_lr(optimizer, step, total, peak, warmup=50):
    factor = (step + 1) / warmup if step < warmup else 0.5 * (1 + math.cos(math.pi * (step - warmup) / (total - warmup)))
    for group in optimizer.param_groups:
        group["lr"] = peak * factor


@torch.no_grad()
def validate(model, windows):
    model.eval()
    x, y = windows.all(stride=12)
    error = model(x) - y
    model.train()
    return error.pow(2).mean().sqrt().item(), error.abs().mean().item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--window", type=int, default=48)
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--seed", type=int, default=17)
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)
    gen = torch.Generator().manual_seed(args.seed)
    load, clock = simulate_load(24 * 400, gen)
    cut = 24 * 320
    mean, std = load[:cut].mean(), load[:cut].std()
    train = Windows(load[:cut], clock[:cut], args.window, mean, std)
    valid = Windows(load[cut:], clock[cut:], args.window, mean, std)
    model = TCN(features=3)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=1e-3)
    running = None
    for step in range(args.steps):
        set_lr(optimizer, step, args.steps, args.lr)
        x, y = train.draw(args.batch_size, gen)
        loss = F.mse_loss(model(x), y)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        running = loss.item() if running is None else 0.98 * running + 0.02 * loss.item()
        if (step + 1) % 100 == 0:
            rmse, mae = validate(model, valid)
            print(f"step {step + 1:4d}  train mse {running:.4f}  valid rmse {rmse:.4f}  mae {mae:.4f}")


if __name__ == "__main__":
    main()
