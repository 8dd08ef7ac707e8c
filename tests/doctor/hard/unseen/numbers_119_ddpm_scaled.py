# kind: numbers
# expect: clip-before-unscale
# why: LossScaler.step() divides the gradients by the scale, but clip_grad_norm_ is called before it, on gradients that are
#   still multiplied by 4096; every step is clipped to 1/4096 of the meant norm.
"""Denoising diffusion of two-dimensional point patterns under bfloat16 autocast with a static loss scale."""
import argparse
import copy
import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass
class Config:
    levels: int = 100
    width: int = 64
    depth: int = 3
    batch: int = 128
    steps: int = 500
    lr: float = 1e-3
    clip: float = 1.0
    scale: float = 4096.0
    ema: float = 0.99


class LossScaler:
    def __init__(self, scale: float) -> None:
        self.factor = scale
        self.skipped = 0

    def scale(self, loss: Tensor) -> Tensor:
        return loss * self.factor

    def step(self, optimizer: torch.optim.Optimizer) -> None:
        grads = [p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
        if not all(torch.isfinite(g).all() for g in grads):
            self.skipped += 1
            return
        torch._foreach_div_(grads, self.factor)
        optimizer.step()


class Denoiser(nn.Module):
    def __init__(self, cfg: Config) -> None:
        super().__init__()
        self.register_buffer("freq", torch.exp(torch.linspace(0.0, 4.0, 16)))
        self.stem = nn.Linear(2, cfg.width)
        self.time = nn.Linear(32, cfg.width)
        wide = 2 * cfg.width
        self.layers = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(cfg.width), nn.Linear(cfg.width, wide), nn.SiLU(), nn.Linear(wide, cfg.width))
            for _ in range(cfg.depth)
        )
        self.out = nn.Linear(cfg.width, 2)

    def forward(self, x: Tensor, t: Tensor) -> Tensor:
        angle = t[:, None] * self.freq
        h = self.stem(x) + self.time(torch.cat([angle.sin(), angle.cos()], -1))
        for layer in self.layers:
            h = h + layer(h)
        return self.out(h)


class Diffusion:
    def __init__(self, levels: int) -> None:
        self.levels = levels
        t = torch.arange(levels + 1) / levels
        alpha = torch.cos((t + 0.008) / 1.008 * math.pi / 2) ** 2
        self.alpha = (alpha / alpha[0])[1:].clamp(min=1e-4)

    def loss(self, model: nn.Module, x: Tensor, generator: torch.Generator | None = None) -> Tensor:
        t = torch.randint(self.levels, (len(x),), generator=generator)
        noise = torch.randn(x.shape, generator=generator)
        a = self.alpha[t].unsqueeze(-1)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            predicted = model(a.sqrt() * x + (1 - a).sqrt() * noise, t / self.levels)
        return F.mse_loss(predicted.float(), noise)


def points(n: int, seed: int) -> Tensor:
    g = torch.Generator().manual_seed(seed)
    r = torch.rand(n, generator=g).sqrt()
    turn = 3 * math.pi * r + math.pi * torch.randint(2, (n,), generator=g)
    xy = torch.stack([r * turn.cos(), r * turn.sin()], -1)
    return (xy + 0.02 * torch.randn(n, 2, generator=g)) / 0.5


class Trainer:
    def __init__(self, cfg: Config) -> None:
        self.cfg = cfg
        self.diffusion = Diffusion(cfg.levels)
        self.model = Denoiser(cfg)
        self.averaged = copy.deepcopy(self.model).requires_grad_(False).eval()
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=cfg.lr)
        self.schedule = torch.optim.lr_scheduler.LambdaLR(self.optimizer, self.factor)
        self.scaler = LossScaler(cfg.scale)

    def factor(self, step: int) -> float:
        return min(1.0, (step + 1) / 50) * max(0.05, 1.0 - step / self.cfg.steps)

    def train_step(self, x: Tensor) -> float:
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.diffusion.loss(self.model, x)
        self.scaler.scale(loss).backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), self.cfg.clip)
        self.scaler.step(self.optimizer)
        self.schedule.step()
        with torch.no_grad():
            for slow, fast in zip(self.averaged.parameters(), self.model.parameters()):
                slow.lerp_(fast, 1.0 - self.cfg.ema)
        return loss.item()

    @torch.no_grad()
    def validate(self, x: Tensor) -> float:
        return self.diffusion.loss(self.averaged, x, torch.Generator().manual_seed(0)).item()

    def fit(self, train: Tensor, valid: Tensor) -> None:
        self.model.train()
        window = 0.0
        for step in range(1, self.cfg.steps + 1):
            rows = torch.randint(len(train), (self.cfg.batch,))
            window += self.train_step(train[rows])
            if step % 100 == 0:
                print(f"step {step} loss {window / 100:.4f} valid {self.validate(valid):.4f} skipped {self.scaler.skipped}")
                window = 0.0


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=Config.steps)
    parser.add_argument("--clip", type=float, default=Config.clip)
    args = parser.parse_args()
    torch.manual_seed(31)
    torch.set_num_threads(1)
    trainer = Trainer(Config(steps=args.steps, clip=args.clip))
    trainer.fit(points(6000, 1), points(2000, 2))


if __name__ == "__main__":
    main()
