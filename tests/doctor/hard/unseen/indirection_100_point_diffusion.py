# kind: indirection
# expect: clip-of-nothing
# why: The weights are an itertools.chain that the optimizer has consumed, so clip_grad_norm_ sees no parameters.
"""Class-conditional diffusion on 2-D point clouds with a cosine noise schedule."""
import itertools
import math
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset


@dataclass(frozen=True)
class DiffusionConfig:
    steps: int = 100
    classes: int = 3
    width: int = 96
    embed: int = 32
    batch: int = 128
    epochs: int = 20
    lr: float = 2e-3
    max_norm: float = 0.5
    drop_label: float = 0.1
    seed: int = 8


def make_points(n: int, gen: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    labels = torch.randint(0, 3, (n,), generator=gen)
    u = torch.rand(n, generator=gen)
    spiral = torch.stack([u * (6 * u).cos(), u * (6 * u).sin()], 1) * 1.5
    circle = torch.stack([(2 * math.pi * u).cos(), (2 * math.pi * u).sin()], 1)
    line = torch.stack([2 * u - 1, (4 * (2 * u - 1)).sin() * 0.5], 1)
    points = torch.stack([spiral, circle, line], 1)[torch.arange(n), labels]
    return points + 0.04 * torch.randn(n, 2, generator=gen), labels


class TimeEmbedding(nn.Module):
    def __init__(self, dim: int, steps: int) -> None:
        super().__init__()
        freqs = torch.exp(torch.linspace(0, math.log(100.0), dim // 2))
        self.register_buffer("freqs", freqs)
        self.steps = steps
        self.mlp = nn.Sequential(nn.Linear(dim, dim), nn.SiLU(), nn.Linear(dim, dim))

    def forward(self, t: torch.Tensor) -> torch.Tensor:
        angle = (t.float() / self.steps).unsqueeze(1) * self.freqs
        return self.mlp(torch.cat([angle.sin(), angle.cos()], 1))


class Denoiser(nn.Module):
    def __init__(self, cfg: DiffusionConfig) -> None:
        super().__init__()
        self.inp = nn.Linear(2 + cfg.embed, cfg.width)
        self.layers = nn.ModuleList(nn.Sequential(nn.LayerNorm(cfg.width), nn.Linear(cfg.width, cfg.width), nn.SiLU()) for _ in range(3))
        self.out = nn.Linear(cfg.width, 2)

    def forward(self, x: torch.Tensor, cond: torch.Tensor) -> torch.Tensor:
        h = F.silu(self.inp(torch.cat([x, cond], 1)))
        for layer in self.layers:
            h = h + layer(h)
        return self.out(h)


class Diffusion:
    def __init__(self, cfg: DiffusionConfig) -> None:
        self.cfg = cfg
        t = torch.arange(cfg.steps + 1) / cfg.steps
        bar = torch.cos((t + 0.008) / 1.008 * math.pi / 2) ** 2
        self.alpha_bar = (bar / bar[0])[1:].clamp(min=1e-4)
        self.parts = {
            "net": Denoiser(cfg),
            "time": TimeEmbedding(cfg.embed, cfg.steps),
            "label": nn.Embedding(cfg.classes + 1, cfg.embed),
        }

    def weights(self) -> "itertools.chain[nn.Parameter]":
        return itertools.chain.from_iterable(part.parameters() for part in self.parts.values())

    def mode(self, training: bool) -> None:
        for part in self.parts.values():
            part.train(training)

    def loss(self, x: torch.Tensor, y: torch.Tensor, gen: torch.Generator | None = None) -> torch.Tensor:
        t = torch.randint(0, self.cfg.steps, (len(x),), generator=gen)
        noise = torch.randn(x.shape, generator=gen)
        bar = self.alpha_bar[t].unsqueeze(1)
        cond = self.parts["time"](t) + self.parts["label"](y)
        return F.mse_loss(self.parts["net"](bar.sqrt() * x + (1 - bar).sqrt() * noise, cond), noise)

    @torch.no_grad()
    def evaluate(self, x: torch.Tensor, y: torch.Tensor) -> float:
        self.mode(False)
        gen = torch.Generator().manual_seed(1234)
        return sum(self.loss(x, y, gen).item() for _ in range(4)) / 4


def main() -> None:
    cfg = DiffusionConfig()
    torch.manual_seed(cfg.seed)
    torch.set_num_threads(1)
    gen = torch.Generator().manual_seed(cfg.seed)
    train_x, train_y = make_points(4096, gen)
    valid_x, valid_y = make_points(1024, gen)
    mean, std = train_x.mean(0), train_x.std(0)
    train_x, valid_x = (train_x - mean) / std, (valid_x - mean) / std
    loader = DataLoader(TensorDataset(train_x, train_y), batch_size=cfg.batch, shuffle=True, drop_last=True)

    model = Diffusion(cfg)
    weights = model.weights()
    opt = torch.optim.AdamW(weights, lr=cfg.lr, weight_decay=1e-4)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=cfg.epochs * len(loader))
    for epoch in range(cfg.epochs):
        model.mode(True)
        total = 0.0
        for x, y in loader:
            y = torch.where(torch.rand(len(y)) < cfg.drop_label, cfg.classes, y)
            loss = model.loss(x, y)
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(weights, cfg.max_norm)
            opt.step()
            sched.step()
            total += loss.item()
        print(f"epoch {epoch} train {total / len(loader):.4f} valid {model.evaluate(valid_x, valid_y):.4f}")


if __name__ == "__main__":
    main()
