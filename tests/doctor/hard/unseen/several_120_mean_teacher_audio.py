# kind: several
# expect: teacher-shares-weights
# why: make_teacher() loads student.state_dict() with assign=True, so the teacher's parameters are views of the student's
#   storage; the moving average is a no-op and the teacher is always the student itself.
"""Semi-supervised sound event classification with a mean teacher: few labelled clips, many unlabelled ones."""
import argparse
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass
class Config:
    mels: int = 24
    frames: int = 32
    classes: int = 6
    width: int = 48
    labelled: int = 180
    unlabelled: int = 2400
    batch: int = 32
    steps: int = 600
    lr: float = 1e-3
    decay: float = 0.99
    weight: float = 4.0
    ramp: int = 200


class SoundNet(nn.Module):
    def __init__(self, cfg: Config) -> None:
        super().__init__()
        self.conv1 = nn.Conv1d(cfg.mels, cfg.width, 5, stride=2, padding=2)
        self.norm1 = nn.GroupNorm(4, cfg.width)
        self.conv2 = nn.Conv1d(cfg.width, cfg.width, 5, stride=2, padding=2)
        self.norm2 = nn.GroupNorm(4, cfg.width)
        self.drop = nn.Dropout(0.2)
        self.head = nn.Linear(cfg.width, cfg.classes)

    def forward(self, x: Tensor) -> Tensor:
        x = F.gelu(self.norm1(self.conv1(x)))
        x = F.gelu(self.norm2(self.conv2(x)))
        return self.head(self.drop(x.mean(-1)))


def make_teacher(student: nn.Module, cfg: Config) -> nn.Module:
    # The teacher needs no initialisation of its own: build the structure only, then fill it.
    with torch.device("meta"):
        teacher = SoundNet(cfg)
    teacher.load_state_dict(student.state_dict(), assign=True)
    teacher.requires_grad_(False)
    return teacher.eval()


@torch.no_grad()
def update_teacher(teacher: nn.Module, student: nn.Module, decay: float) -> None:
    for slow, fast in zip(teacher.parameters(), student.parameters()):
        slow.lerp_(fast, 1.0 - decay)


def make_clips(cfg: Config, n: int, seed: int) -> tuple[Tensor, Tensor]:
    shapes = torch.Generator().manual_seed(77)
    freq = torch.rand(cfg.classes, 3, generator=shapes) * cfg.mels
    speed = torch.randn(cfg.classes, 3, generator=shapes) * 0.25
    g = torch.Generator().manual_seed(seed)
    labels = torch.randint(cfg.classes, (n,), generator=g)
    time = torch.arange(cfg.frames).view(1, 1, -1, 1)
    mel = torch.arange(cfg.mels).view(1, -1, 1, 1)
    centre = freq[labels][:, None, None] + speed[labels][:, None, None] * time + 1.5 * torch.randn(n, 1, 1, 3, generator=g)
    clean = torch.exp(-0.5 * ((mel - centre) / 1.2) ** 2).sum(-1)
    clips = clean + 0.7 * torch.randn(n, cfg.mels, cfg.frames, generator=g)
    return clips, labels


def augment(x: Tensor) -> Tensor:
    shift = int(torch.randint(-4, 5, ()))
    gain = 1.0 + 0.1 * torch.randn(len(x), 1, 1)
    return torch.roll(x, shift, dims=-1) * gain + 0.1 * torch.randn_like(x)


@torch.no_grad()
def accuracy(model: nn.Module, clips: Tensor, labels: Tensor) -> float:
    was_training = model.training
    model.eval()
    result = (model(clips).argmax(-1) == labels).float().mean().item()
    model.train(was_training)
    return result


class Sampler:
    def __init__(self, n: int, batch: int) -> None:
        self.n, self.batch = n, batch
        self.order: list[int] = []

    def next(self) -> list[int]:
        if len(self.order) < self.batch:
            self.order = torch.randperm(self.n).tolist()
        taken, self.order = self.order[: self.batch], self.order[self.batch :]
        return taken


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=Config.steps)
    parser.add_argument("--decay", type=float, default=Config.decay)
    args = parser.parse_args()
    cfg = Config(steps=args.steps, decay=args.decay)
    torch.manual_seed(3)
    torch.set_num_threads(1)

    clips, labels = make_clips(cfg, cfg.labelled, 1)
    pool, _ = make_clips(cfg, cfg.unlabelled, 2)
    valid_x, valid_y = make_clips(cfg, 800, 3)
    mean, std = pool.mean((0, 2), keepdim=True), pool.std((0, 2), keepdim=True)
    clips, pool, valid_x = ((t - mean) / std for t in (clips, pool, valid_x))

    student = SoundNet(cfg)
    teacher = make_teacher(student, cfg)
    optimizer = torch.optim.AdamW(student.parameters(), lr=cfg.lr, weight_decay=1e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, cfg.steps, eta_min=1e-4)
    with_labels, without = Sampler(cfg.labelled, cfg.batch), Sampler(cfg.unlabelled, 2 * cfg.batch)

    for step in range(1, cfg.steps + 1):
        rows = with_labels.next()
        supervised = F.cross_entropy(student(augment(clips[rows])), labels[rows])
        batch = pool[without.next()]
        with torch.no_grad():
            target = teacher(augment(batch)).softmax(-1)
        consistency = F.mse_loss(student(augment(batch)).softmax(-1), target)
        loss = supervised + cfg.weight * min(1.0, step / cfg.ramp) * consistency
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        update_teacher(teacher, student, cfg.decay)
        if step % 100 == 0:
            print(
                f"step {step} supervised {supervised.item():.4f} consistency {consistency.item():.5f} "
                f"student {accuracy(student, valid_x, valid_y):.3f} teacher {accuracy(teacher, valid_x, valid_y):.3f}"
            )


if __name__ == "__main__":
    main()
