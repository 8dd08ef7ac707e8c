# kind: second_phase
# expect: frozen-parameter-moves
# why: At the second phase the encoder gets requires_grad=False, but the optimizer still holds it and zero_grad(set_to_none=False)
#   leaves gradients of zeros, so AdamW's momentum and weight decay go on moving the frozen weights.
"""Fault detection on vibration signals: train on one plant, then adapt only the classifier to another plant."""
import argparse
import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass
class Config:
    length: int = 128
    classes: int = 5
    width: int = 32
    source_steps: int = 300
    adapt_steps: int = 400
    batch: int = 48
    lr: float = 2e-3
    weight_decay: float = 0.05
    log_every: int = 100


class Encoder(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv1d(1, width, 9, stride=2, padding=4)
        self.norm1 = nn.GroupNorm(4, width)
        self.conv2 = nn.Conv1d(width, 2 * width, 5, stride=2, padding=2)
        self.norm2 = nn.GroupNorm(4, 2 * width)

    def forward(self, x: Tensor) -> Tensor:
        x = F.gelu(self.norm1(self.conv1(x.unsqueeze(1))))
        x = F.gelu(self.norm2(self.conv2(x)))
        return torch.cat([x.mean(-1), x.amax(-1)], -1)


class FaultNet(nn.Module):
    def __init__(self, cfg: Config) -> None:
        super().__init__()
        self.encoder = Encoder(cfg.width)
        self.classifier = nn.Sequential(
            nn.Linear(4 * cfg.width, cfg.width), nn.GELU(), nn.Dropout(0.1), nn.Linear(cfg.width, cfg.classes)
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.encoder(x))


@dataclass
class Plant:
    name: str
    speed: float
    noise: float
    seed: int

    def signals(self, n: int, cfg: Config, seed: int) -> tuple[Tensor, Tensor]:
        g = torch.Generator().manual_seed(self.seed * 1000 + seed)
        labels = torch.randint(cfg.classes, (n,), generator=g)
        t = torch.arange(cfg.length) / cfg.length
        base = 4.0 * self.speed * (1 + 0.1 * torch.randn(n, 1, generator=g))
        phase = 2 * math.pi * torch.rand(n, 1, generator=g)
        x = torch.sin(2 * math.pi * base * t + phase)
        tone = torch.sin(2 * math.pi * base * (2.0 + labels[:, None]) * t + 2 * phase)
        x = x + 0.6 * (labels[:, None] > 0) * tone + self.noise * torch.randn(n, cfg.length, generator=g)
        return (x - x.mean(1, keepdim=True)) / x.std(1, keepdim=True), labels


def batches(x: Tensor, y: Tensor, size: int) -> Iterator[tuple[Tensor, Tensor]]:
    while True:
        order = torch.randperm(len(x))
        for rows in order[: len(x) // size * size].view(-1, size):
            yield x[rows], y[rows]


class Trainer:
    def __init__(self, model: FaultNet, cfg: Config) -> None:
        self.model, self.cfg = model, cfg
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=cfg.lr, weight_decay=cfg.weight_decay)
        total = cfg.source_steps + cfg.adapt_steps
        self.schedule = torch.optim.lr_scheduler.LambdaLR(self.optimizer, lambda s: max(0.1, 1.0 - s / total))

    def step(self, x: Tensor, y: Tensor) -> float:
        loss = F.cross_entropy(self.model(x), y, label_smoothing=0.05)
        # The gradient buffers are kept allocated: they are large and the allocator is slow on the edge devices.
        self.optimizer.zero_grad(set_to_none=False)
        loss.backward()
        self.optimizer.step()
        self.schedule.step()
        return loss.item()

    @torch.no_grad()
    def accuracy(self, x: Tensor, y: Tensor) -> float:
        self.model.eval()
        result = (self.model(x).argmax(-1) == y).float().mean().item()
        self.model.train()
        return result

    def run(self, plant: Plant, steps: int, n: int) -> None:
        x, y = plant.signals(n, self.cfg, 1)
        valid = plant.signals(600, self.cfg, 2)
        print(f"{plant.name}: accuracy before {self.accuracy(*valid):.3f}")
        total = 0.0
        for step, batch in zip(range(1, steps + 1), batches(x, y, self.cfg.batch)):
            total += self.step(*batch)
            if step % self.cfg.log_every == 0:
                print(f"{plant.name} step {step} loss {total / self.cfg.log_every:.4f} accuracy {self.accuracy(*valid):.3f}")
                total = 0.0

    def freeze_encoder(self) -> None:
        for p in self.model.encoder.parameters():
            p.requires_grad_(False)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--adapt-steps", type=int, default=Config.adapt_steps)
    cfg = Config(adapt_steps=parser.parse_args().adapt_steps)
    torch.manual_seed(23)
    torch.set_num_threads(1)
    trainer = Trainer(FaultNet(cfg), cfg)
    trainer.run(Plant("north", speed=1.0, noise=0.5, seed=1), cfg.source_steps, 2400)
    trainer.freeze_encoder()
    trainer.run(Plant("south", speed=1.35, noise=0.7, seed=2), cfg.adapt_steps, 960)


if __name__ == "__main__":
    main()
