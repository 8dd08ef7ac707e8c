# kind: several
# expect: teacher-shares-weights
# why: load_state_dict(..., assign=True) puts the student's own storages into the teacher, so the averaged teacher is the student at
#      every step and the moving average does nothing.
"""Sleep stages from EEG epochs with few labels: supervised loss plus consistency with an averaged teacher."""
import argparse
import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F


@dataclass
class Config:
    labelled: int = 240
    unlabelled: int = 3000
    valid: int = 600
    samples: int = 128
    stages: int = 5
    batch: int = 32
    steps: int = 450
    decay: float = 0.98
    consistency: float = 2.0
    ramp: int = 150
    lr: float = 1.5e-3
    seed: int = 37


def record(n: int, cfg: Config, gen: torch.Generator) -> tuple[Tensor, Tensor]:
    stage = torch.randint(cfg.stages, (n,), generator=gen)
    t = torch.linspace(0, 1, cfg.samples)[None]
    bands = torch.tensor([20.0, 12.0, 8.0, 5.0, 2.5])
    power = torch.full((cfg.stages, cfg.stages), 0.25) + 0.75 * torch.eye(cfg.stages)
    gains = power[stage] * (0.7 + 0.6 * torch.rand(n, cfg.stages, generator=gen))
    x = torch.zeros(n, cfg.samples)
    for k, hz in enumerate(bands):
        shift = 2 * math.pi * torch.rand(n, 1, generator=gen)
        jitter = 1 + 0.1 * torch.randn(n, 1, generator=gen)
        x = x + gains[:, k : k + 1] * torch.sin(2 * math.pi * hz * jitter * t + shift)
    return (x + 0.7 * torch.randn(n, cfg.samples, generator=gen))[:, None], stage


def perturb(x: Tensor, gen: torch.Generator) -> Tensor:
    shift = int(torch.randint(-8, 9, (1,), generator=gen))
    gain = 1 + 0.1 * torch.randn(len(x), 1, 1, generator=gen)
    return gain * x.roll(shift, dims=-1) + 0.2 * torch.randn(x.shape, generator=gen)


def shuffled(n: int, batch: int, gen: torch.Generator) -> Iterator[Tensor]:
    while True:
        yield from torch.randperm(n, generator=gen)[: n // batch * batch].split(batch)


class StageNet(nn.Module):
    def __init__(self, stages: int) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv1d(1, 24, 15, stride=2, padding=7), nn.GroupNorm(4, 24), nn.GELU(),
            nn.Conv1d(24, 32, 9, stride=2, padding=4), nn.GroupNorm(4, 32), nn.GELU(),
            nn.Conv1d(32, 48, 5, stride=2, padding=2), nn.GELU(),
        )
        self.drop = nn.Dropout(0.2)
        self.classify = nn.Linear(48, stages)

    def forward(self, x: Tensor) -> Tensor:
        return self.classify(self.drop(self.features(x).amax(-1)))


class MeanTeacher:
    def __init__(self, cfg: Config) -> None:
        self.cfg = cfg
        self.student = StageNet(cfg.stages)
        self.teacher = StageNet(cfg.stages)
        self.teacher.load_state_dict(self.student.state_dict(), assign=True)
        self.teacher.requires_grad_(False).eval()
        self.optimizer = torch.optim.AdamW(self.student.parameters(), lr=cfg.lr, weight_decay=1e-3)

    def weight(self, step: int) -> float:
        progress = min(1.0, step / self.cfg.ramp)
        return self.cfg.consistency * math.exp(-5 * (1 - progress) ** 2)

    def step(self, step: int, x: Tensor, y: Tensor, u: Tensor, gen: torch.Generator) -> tuple[float, float]:
        self.student.train()
        with torch.no_grad():
            goal = self.teacher(perturb(u, gen)).softmax(1)
        supervised = F.cross_entropy(self.student(perturb(x, gen)), y)
        agreement = F.mse_loss(self.student(perturb(u, gen)).softmax(1), goal)
        loss = supervised + self.weight(step) * agreement
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.average()
        return supervised.item(), agreement.item()

    @torch.no_grad()
    def average(self) -> None:
        for t, s in zip(self.teacher.parameters(), self.student.parameters(), strict=True):
            t.lerp_(s, 1 - self.cfg.decay)


@torch.no_grad()
def accuracy(model: nn.Module, x: Tensor, y: Tensor) -> float:
    was_training = model.training
    model.eval()
    hits = sum(int((model(a).argmax(1) == b).sum()) for a, b in zip(x.split(200), y.split(200), strict=True))
    model.train(was_training)
    return hits / len(x)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=Config.steps)
    parser.add_argument("--consistency", type=float, default=Config.consistency)
    args = parser.parse_args()
    cfg = Config(steps=args.steps, consistency=args.consistency)
    torch.set_num_threads(1)
    torch.manual_seed(cfg.seed)
    gen = torch.Generator().manual_seed(cfg.seed)

    (x, y), (u, _), (vx, vy) = (record(n, cfg, gen) for n in (cfg.labelled, cfg.unlabelled, cfg.valid))
    mean, std = u.mean(), u.std()
    x, u, vx = (x - mean) / std, (u - mean) / std, (vx - mean) / std

    trainer = MeanTeacher(cfg)
    labelled, unlabelled = shuffled(len(x), cfg.batch, gen), shuffled(len(u), cfg.batch, gen)
    for step in range(1, cfg.steps + 1):
        rows, more = next(labelled), next(unlabelled)
        supervised, agreement = trainer.step(step, x[rows], y[rows], u[more], gen)
        if step % 75 == 0:
            print(
                f"step {step:4d} supervised {supervised:.4f} consistency {agreement:.5f} "
                f"teacher acc {accuracy(trainer.teacher, vx, vy):.3f}"
            )


if __name__ == "__main__":
    main()
