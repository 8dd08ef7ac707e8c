# kind: no_loader
# expect: nothing
# why: Truncated backpropagation through time over parallel lanes: the chunks come in time order because the state is carried on,
#      the state is detached, the lanes begin at another offset every epoch, and validation is a later part of the recording.
"""One-step-ahead forecast of a vibration sensor from a continuous recording, with a stateful GRU."""
import argparse
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F


@dataclass
class Config:
    length: int = 24_000
    valid_fraction: float = 0.15
    lanes: int = 16
    chunk: int = 32
    epochs: int = 12
    hidden: int = 48
    lr: float = 3e-3
    seed: int = 5


def record(cfg: Config) -> Tensor:
    rng = np.random.default_rng(cfg.seed)
    t = np.arange(cfg.length)
    speed = 0.10 + 0.04 * np.sin(2 * np.pi * t / 3100)
    phase = np.cumsum(speed)
    hum = np.sin(phase) + 0.5 * np.sin(2 * phase + 0.4) * (1 + 0.5 * np.sin(2 * np.pi * t / 900))
    drift = np.zeros(cfg.length)
    for i in range(1, cfg.length):
        drift[i] = 0.98 * drift[i - 1] + 0.05 * rng.standard_normal()
    temperature = 0.6 * np.cos(2 * np.pi * t / 3100) + 0.1 * rng.standard_normal(cfg.length)
    signal = hum + drift + 0.05 * rng.standard_normal(cfg.length)
    return torch.tensor(np.stack([signal, temperature], 1), dtype=torch.float32)


class LaneStream:
    """Cuts a recording into lanes that are read side by side, chunk after chunk."""

    def __init__(self, series: Tensor, lanes: int, chunk: int, gen: torch.Generator) -> None:
        self.series, self.lanes, self.chunk, self.gen = series, lanes, chunk, gen
        self.lane_length = (len(series) - 1 - chunk) // lanes
        self.chunks = (self.lane_length - 1) // chunk

    def __len__(self) -> int:
        return self.chunks

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        offset = int(torch.randint(self.chunk, (1,), generator=self.gen))
        starts = offset + torch.arange(self.lanes) * self.lane_length
        starts = starts[torch.randperm(self.lanes, generator=self.gen)]
        for k in range(self.chunks):
            index = starts[:, None] + k * self.chunk + torch.arange(self.chunk)
            yield self.series[index], self.series[index + 1][..., :1]


class Forecaster(nn.Module):
    def __init__(self, inputs: int, hidden: int) -> None:
        super().__init__()
        self.embed = nn.Linear(inputs, hidden)
        self.rnn = nn.GRU(hidden, hidden, batch_first=True)
        self.head = nn.Sequential(nn.LayerNorm(hidden), nn.Linear(hidden, 1))

    def forward(self, x: Tensor, state: Tensor | None) -> tuple[Tensor, Tensor]:
        h, state = self.rnn(torch.tanh(self.embed(x)), state)
        return x[..., :1] + self.head(h), state


def train_epoch(
    model: Forecaster, stream: LaneStream, optimizer: torch.optim.Optimizer, scheduler: torch.optim.lr_scheduler.LRScheduler
) -> float:
    model.train()
    state: Tensor | None = None
    total = 0.0
    for x, y in stream:
        if state is not None:
            state = state.detach()
        prediction, state = model(x, state)
        loss = F.smooth_l1_loss(prediction, y, beta=0.5)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        total += loss.item()
    return total / len(stream)


@torch.no_grad()
def evaluate(model: Forecaster, series: Tensor, warmup: int = 64) -> float:
    model.eval()
    prediction, _ = model(series[None, :-1], None)
    error = (prediction[0] - series[1:, :1])[warmup:]
    return float(error.pow(2).mean().sqrt())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=Config.epochs)
    cfg = Config(epochs=parser.parse_args().epochs)
    torch.set_num_threads(1)
    torch.manual_seed(cfg.seed)
    gen = torch.Generator().manual_seed(cfg.seed + 1)

    series = record(cfg)
    cut = int(cfg.length * (1 - cfg.valid_fraction))
    mean, std = series[:cut].mean(0), series[:cut].std(0)
    train, valid = (series[:cut] - mean) / std, (series[cut:] - mean) / std

    stream = LaneStream(train, cfg.lanes, cfg.chunk, gen)
    model = Forecaster(series.shape[1], cfg.hidden)
    optimizer = torch.optim.Adam(model.parameters(), lr=cfg.lr)
    total_steps = cfg.epochs * len(stream)
    scheduler = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda s: min(1.0, (s + 1) / 50) * (0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * min(1.0, s / total_steps))))
    )
    best, best_weights = float("inf"), None
    for epoch in range(cfg.epochs):
        loss = train_epoch(model, stream, optimizer, scheduler)
        rmse = evaluate(model, valid)
        print(f"epoch {epoch:2d} loss {loss:.4f} valid rmse {rmse:.4f} lr {scheduler.get_last_lr()[0]:.2e}")
        if rmse < best:
            best, best_weights = rmse, {k: v.detach().clone() for k, v in model.state_dict().items()}
    assert best_weights is not None
    model.load_state_dict(best_weights)
    persistence = float((valid[1:, 0] - valid[:-1, 0])[64:].pow(2).mean().sqrt())
    print(f"best {evaluate(model, valid):.4f}, persistence {persistence:.4f}")


if __name__ == "__main__":
    main()
