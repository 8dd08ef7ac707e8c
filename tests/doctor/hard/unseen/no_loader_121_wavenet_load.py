# kind: no_loader
# expect: future-leaks
# why: The convolutions are causal, but GroupNorm(1, C) on (batch, channel, time) takes its mean and variance over the whole
#   window, so every one-step forecast depends on later positions.
"""Next-step density forecasts of an electricity load series with a dilated causal network."""
import argparse
import copy
import math
from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def load_series(hours: int, seed: int) -> Tensor:
    g = torch.Generator().manual_seed(seed)
    t = torch.arange(hours, dtype=torch.float32)
    daily = torch.sin(2 * math.pi * t / 24) + 0.4 * torch.sin(4 * math.pi * t / 24 + 0.7)
    weekly = 0.5 * torch.cos(2 * math.pi * t / 168)
    shocks = torch.randn(hours, generator=g)
    weather = torch.zeros(hours)
    for i in range(1, hours):
        weather[i] = 0.95 * weather[i - 1] + 0.25 * shocks[i]
    return daily + weekly + weather + 0.1 * torch.randn(hours, generator=g)


class CausalConv(nn.Module):
    def __init__(self, n_in: int, n_out: int, kernel: int, dilation: int = 1) -> None:
        super().__init__()
        self.left = (kernel - 1) * dilation
        self.conv = nn.Conv1d(n_in, n_out, kernel, dilation=dilation)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(F.pad(x, (self.left, 0)))


class Block(nn.Module):
    def __init__(self, width: int, dilation: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(1, width)
        self.conv = CausalConv(width, 2 * width, 2, dilation)
        self.out = nn.Conv1d(width, width, 1)

    def forward(self, x: Tensor) -> Tensor:
        value, gate = self.conv(self.norm(x)).chunk(2, dim=1)
        return x + self.out(torch.tanh(value) * torch.sigmoid(gate))


class LoadNet(nn.Module):
    def __init__(self, width: int = 24, depth: int = 6) -> None:
        super().__init__()
        self.stem = CausalConv(1, width, 3)
        self.blocks = nn.Sequential(*(Block(width, 2**i) for i in range(depth)))
        self.head = nn.Conv1d(width, 2, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        mean, log_std = self.head(self.blocks(self.stem(x.unsqueeze(1)))).unbind(1)
        return mean, log_std.clamp(-5.0, 2.0)


def gaussian_nll(mean: Tensor, log_std: Tensor, target: Tensor) -> Tensor:
    return (log_std + 0.5 * ((target - mean) / log_std.exp()) ** 2).mean() + 0.5 * math.log(2 * math.pi)


def windows(series: Tensor, length: int, batch: int, g: torch.Generator) -> Iterator[Tensor]:
    offsets = torch.arange(length)
    while True:
        start = torch.randint(len(series) - length, (batch, 1), generator=g)
        yield series[start + offsets]


@torch.no_grad()
def evaluate(model: nn.Module, series: Tensor, length: int) -> tuple[float, float]:
    model.eval()
    parts = series[: len(series) // length * length].view(-1, length)
    mean, log_std = model(parts[:, :-1])
    nll = gaussian_nll(mean, log_std, parts[:, 1:]).item()
    mae = (mean - parts[:, 1:]).abs().mean().item()
    model.train()
    return nll, mae


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--length", type=int, default=97)
    parser.add_argument("--lr", type=float, default=2e-3)
    args = parser.parse_args()
    torch.manual_seed(21)
    torch.set_num_threads(1)

    series = load_series(12000, seed=4)
    train, valid = series[:9600], series[9800:]
    centre, spread = train.mean(), train.std()
    train, valid = (train - centre) / spread, (valid - centre) / spread

    model = LoadNet()
    best_nll, best = float("inf"), copy.deepcopy(model.state_dict())
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=1e-2)
    warmup = 30
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer,
        lambda s: min(1.0, (s + 1) / warmup) * (0.55 + 0.45 * math.cos(math.pi * min(1.0, s / args.steps))),
    )
    stream = windows(train, args.length, args.batch, torch.Generator().manual_seed(8))
    running = 0.0
    for step, batch in zip(range(1, args.steps + 1), stream):
        mean, log_std = model(batch[:, :-1])
        loss = gaussian_nll(mean, log_std, batch[:, 1:])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        running += loss.item()
        if step % 50 == 0:
            nll, mae = evaluate(model, valid, args.length)
            print(f"step {step} train nll {running / 50:.4f} valid nll {nll:.4f} mae {mae:.4f}")
            running = 0.0
            if nll < best_nll:
                best_nll, best = nll, copy.deepcopy(model.state_dict())

    model.load_state_dict(best)
    print("best valid nll %.4f mae %.4f" % evaluate(model, valid, args.length))


if __name__ == "__main__":
    main()
