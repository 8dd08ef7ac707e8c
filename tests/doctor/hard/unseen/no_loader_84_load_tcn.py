# kind: no_loader
# expect: future-leaks
# why: The convolutions are causal, but the channel gate in every block averages over the whole window, so the forecast at each
#      position depends on the values that come after it.
"""Next-hour forecast of electric load at every position of a window, with a dilated causal network."""
import argparse
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F


@dataclass
class Config:
    hours: int = 12_000
    window: int = 48
    batch: int = 16
    steps: int = 320
    channels: int = 32
    dilations: tuple[int, ...] = (1, 2, 4, 8)
    lr: float = 2e-3
    eval_every: int = 80
    seed: int = 8


def make_load(cfg: Config) -> Tensor:
    rng = np.random.default_rng(cfg.seed)
    hour = np.arange(cfg.hours)
    daily = np.sin(2 * np.pi * hour / 24) + 0.4 * np.sin(4 * np.pi * hour / 24 + 1.0)
    weekly = 0.5 * np.where((hour // 24) % 7 >= 5, -1.0, 0.4)
    weather = np.zeros(cfg.hours)
    for i in range(1, cfg.hours):
        weather[i] = 0.97 * weather[i - 1] + 0.2 * rng.standard_normal()
    load = 50 + 8 * daily + 6 * weekly + 3 * weather + 1.5 * rng.standard_normal(cfg.hours)
    calendar = [np.sin(2 * np.pi * hour / 24), np.cos(2 * np.pi * hour / 24), ((hour // 24) % 7 >= 5).astype(float)]
    return torch.tensor(np.stack([load, *calendar], 1), dtype=torch.float32)


def draw(series: Tensor, cfg: Config, gen: torch.Generator) -> Iterator[tuple[Tensor, Tensor]]:
    while True:
        start = torch.randint(len(series) - cfg.window - 1, (cfg.batch, 1), generator=gen)
        index = start + torch.arange(cfg.window)
        yield series[index], series[index + 1][..., 0]


class ChannelNorm(nn.Module):
    """LayerNorm over the channels of each position."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(channels)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(x.transpose(1, 2)).transpose(1, 2)


class CausalConv(nn.Conv1d):
    def forward(self, x: Tensor) -> Tensor:
        reach = (self.kernel_size[0] - 1) * self.dilation[0]
        return super().forward(F.pad(x, (reach, 0)))


class Gate(nn.Module):
    """Weights the channels by what the block has seen."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(channels, channels // 2), nn.ReLU(), nn.Linear(channels // 2, channels), nn.Sigmoid())

    def forward(self, x: Tensor) -> Tensor:
        return x * self.net(x.mean(dim=2))[:, :, None]


class Block(nn.Module):
    def __init__(self, channels: int, dilation: int) -> None:
        super().__init__()
        self.norm = ChannelNorm(channels)
        self.conv = CausalConv(channels, channels, 3, dilation=dilation)
        self.gate = Gate(channels)
        self.drop = nn.Dropout(0.05)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.drop(self.gate(F.gelu(self.conv(self.norm(x)))))


class CausalNet(nn.Module):
    def __init__(self, inputs: int, cfg: Config) -> None:
        super().__init__()
        self.inlet = CausalConv(inputs, cfg.channels, 3)
        self.blocks = nn.ModuleList(Block(cfg.channels, d) for d in cfg.dilations)
        self.outlet = nn.Conv1d(cfg.channels, 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        h = self.inlet(x.transpose(1, 2))
        for block in self.blocks:
            h = block(h)
        return x[..., 0] + self.outlet(h).squeeze(1)


@torch.no_grad()
def evaluate(model: nn.Module, series: Tensor, window: int) -> float:
    model.eval()
    starts = torch.arange(0, len(series) - window - 1, window)[:, None]
    index = starts + torch.arange(window)
    error = model(series[index]) - series[index + 1][..., 0]
    return float(error.abs().mean())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=Config.steps)
    parser.add_argument("--window", type=int, default=Config.window)
    args = parser.parse_args()
    cfg = Config(steps=args.steps, window=args.window)
    torch.set_num_threads(1)
    torch.manual_seed(cfg.seed)
    gen = torch.Generator().manual_seed(cfg.seed)

    series = make_load(cfg)
    cut = int(0.8 * cfg.hours)
    mean, std = series[:cut].mean(0), series[:cut].std(0)
    train, valid = (series[:cut] - mean) / std, (series[cut:] - mean) / std

    model = CausalNet(series.shape[1], cfg)
    optimizer = torch.optim.AdamW(model.parameters(), lr=cfg.lr, weight_decay=1e-3)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=2 * cfg.lr, total_steps=cfg.steps)
    batches = draw(train, cfg, gen)
    running = 0.0
    for step in range(1, cfg.steps + 1):
        model.train()
        x, y = next(batches)
        loss = F.smooth_l1_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        running += loss.item()
        if step % cfg.eval_every == 0:
            mae = evaluate(model, valid, cfg.window) * float(std[0])
            print(f"step {step:4d} loss {running / cfg.eval_every:.4f} valid mae {mae:.3f} MW")
            running = 0.0


if __name__ == "__main__":
    main()
