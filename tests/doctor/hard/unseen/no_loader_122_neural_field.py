# kind: no_loader
# expect: same-batch-every-step
# why: draw_pixels() makes a generator with the configured seed at every call, so each step trains on the same 512 pixels of the
#   3277 that are meant to be sampled.
"""Fit a neural field (random Fourier features and an MLP) to an image; held-out pixels measure the interpolation."""
import argparse
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass(frozen=True)
class Config:
    size: int = 64
    features: int = 48
    sigma: float = 1.5
    width: int = 96
    depth: int = 3
    batch: int = 512
    steps: int = 700
    lr: float = 2e-3
    seed: int = 2026


@dataclass
class Pixels:
    coords: Tensor
    colours: Tensor

    def __len__(self) -> int:
        return len(self.coords)

    def take(self, rows: Tensor) -> "Pixels":
        return Pixels(self.coords[rows], self.colours[rows])


def render(size: int) -> Pixels:
    axis = (torch.arange(size) + 0.5) / size * 2 - 1
    y, x = torch.meshgrid(axis, axis, indexing="ij")
    r = (x**2 + y**2).sqrt()
    red = 0.5 + 0.5 * torch.sin(5 * x + 3 * y)
    green = torch.sigmoid(12 * (0.6 - r)) * (0.6 + 0.4 * torch.cos(4 * torch.atan2(y, x)))
    blue = 0.5 + 0.5 * torch.cos(7 * r) * x
    return Pixels(torch.stack([x, y], -1).view(-1, 2), torch.stack([red, green, blue], -1).view(-1, 3))


def split(pixels: Pixels, fraction: float, seed: int) -> tuple[Pixels, Pixels]:
    order = torch.randperm(len(pixels), generator=torch.Generator().manual_seed(seed))
    cut = math.ceil(len(pixels) * fraction)
    return pixels.take(order[:cut]), pixels.take(order[cut:])


def draw_pixels(pixels: Pixels, n: int, seed: int) -> Pixels:
    generator = torch.Generator().manual_seed(seed)
    return pixels.take(torch.randint(len(pixels), (n,), generator=generator))


class Field(nn.Module):
    def __init__(self, cfg: Config) -> None:
        super().__init__()
        self.register_buffer("waves", cfg.sigma * torch.randn(2, cfg.features))
        layers: list[nn.Module] = []
        n_in = 2 * cfg.features
        for _ in range(cfg.depth):
            layers += [nn.Linear(n_in, cfg.width), nn.GELU()]
            n_in = cfg.width
        self.net = nn.Sequential(*layers, nn.Linear(n_in, 3), nn.Sigmoid())

    def forward(self, coords: Tensor) -> Tensor:
        phase = 2 * math.pi * coords @ self.waves
        return self.net(torch.cat([phase.sin(), phase.cos()], -1))


def psnr(mse: float) -> float:
    return -10.0 * math.log10(max(mse, 1e-10))


class Averager:
    """Exponential moving average of the weights, used for evaluation."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self.weights = {k: v.detach().clone() for k, v in model.named_parameters()}

    @torch.no_grad()
    def update(self, model: nn.Module) -> None:
        for k, v in model.named_parameters():
            self.weights[k].lerp_(v, 1.0 - self.decay)


@torch.no_grad()
def evaluate(model: nn.Module, weights: dict[str, Tensor], pixels: Pixels) -> float:
    model.eval()
    error = F.mse_loss(torch.func.functional_call(model, weights, (pixels.coords,)), pixels.colours).item()
    model.train()
    return psnr(error)


def fit(cfg: Config, model: nn.Module, next_batch: Callable[[], Pixels], train: Pixels, held_out: Pixels) -> None:
    optimizer = torch.optim.Adam(model.parameters(), lr=cfg.lr)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.1 ** (1 / cfg.steps))
    averager = Averager(model, 0.95)
    for step in range(1, cfg.steps + 1):
        batch = next_batch()
        loss = F.mse_loss(model(batch.coords), batch.colours)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        schedule.step()
        averager.update(model)
        if step % 100 == 0:
            inside, outside = (evaluate(model, averager.weights, p) for p in (train, held_out))
            print(f"step {step} batch psnr {psnr(loss.item()):.2f} train psnr {inside:.2f} held-out psnr {outside:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=Config.steps)
    parser.add_argument("--sigma", type=float, default=Config.sigma)
    parser.add_argument("--seed", type=int, default=Config.seed)
    args = parser.parse_args()
    cfg = Config(steps=args.steps, sigma=args.sigma, seed=args.seed)
    torch.manual_seed(cfg.seed)
    torch.set_num_threads(1)

    train, held_out = split(render(cfg.size), 0.8, cfg.seed)
    model = Field(cfg)
    next_batch = partial(draw_pixels, train, n=cfg.batch, seed=cfg.seed)
    print(f"{len(train)} training pixels, {len(held_out)} held out, {sum(p.numel() for p in model.parameters())} weights")
    fit(cfg, model, next_batch, train, held_out)


if __name__ == "__main__":
    main()
