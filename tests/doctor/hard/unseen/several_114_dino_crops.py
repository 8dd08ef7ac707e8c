# kind: several
# expect: nothing
# why: might be accused of gradients-discarded, foreign-gradients, dead-parameter and teacher-shares-weights; the last layer rests in the first epoch as DINO does, the online probe gets detached features and has its own optimizer, and the teacher is a second model moved by mul_ and add_.
"""Self-distillation with crops of two sizes, an online probe and a nearest-neighbour check."""
import math

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.parametrizations import weight_norm
from torch.utils.data import DataLoader, TensorDataset

SIZE, CLASSES, OUT = 16, 6, 64
EPOCHS, BATCH = 10, 64


def gratings(n, gen):
    y = torch.randint(0, CLASSES, (n,), generator=gen)
    grid = torch.linspace(-1, 1, SIZE)
    yy, xx = torch.meshgrid(grid, grid, indexing="ij")
    angle = (math.pi * (y % 3) / 3)[:, None, None]
    freq = torch.where(y < 3, 4.0, 9.0)[:, None, None]
    phase = 2 * math.pi * torch.rand(n, 1, 1, generator=gen)
    image = torch.sin(freq * (xx * angle.cos() + yy * angle.sin()) + phase)
    return (image + 0.6 * torch.randn(n, SIZE, SIZE, generator=gen))[:, None], y


def crop(x, size):
    """A random square of each image, with a random gain."""
    n = len(x)
    corner = torch.randint(0, SIZE - size + 1, (n, 2))
    span = torch.arange(size)
    rows, cols = corner[:, :1] + span, corner[:, 1:] + span
    picked = x[torch.arange(n)[:, None, None], 0, rows[:, :, None], cols[:, None, :]]
    return (picked * (0.7 + 0.6 * torch.rand(n, 1, 1)))[:, None]


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(
            nn.Conv2d(1, 16, 3, 2, 1), nn.GroupNorm(4, 16), nn.GELU(), nn.Conv2d(16, 32, 3, 2, 1), nn.GroupNorm(4, 32), nn.GELU(),
            nn.Conv2d(32, 48, 3, 1, 1), nn.GroupNorm(4, 48), nn.GELU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.project = nn.Sequential(nn.Linear(48, 96), nn.GELU(), nn.Linear(96, 32))
        self.last = weight_norm(nn.Linear(32, OUT, bias=False))
        scale = self.last.parametrizations.weight.original0
        nn.init.ones_(scale)
        scale.requires_grad_(False)

    def forward(self, x):
        return self.last(F.normalize(self.project(self.backbone(x)), dim=1))


def dino_loss(student_out, teacher_out, centre):
    """Cross-entropy between each teacher view and every other student view."""
    targets = [((t - centre) / 0.04).softmax(dim=1) for t in teacher_out]
    logs = [(s / 0.1).log_softmax(dim=1) for s in student_out]
    terms = [-(t * s).sum(1).mean() for i, t in enumerate(targets) for j, s in enumerate(logs) if i != j]
    return sum(terms) / len(terms)


@torch.no_grad()
def nearest(backbone, bank, queries, k=15):
    backbone.eval()
    a, b = (F.normalize(torch.cat([backbone(p) for p in x.split(250)]), dim=1) for x in (bank[0], queries[0]))
    votes = F.one_hot(bank[1][(b @ a.T).topk(k, dim=1).indices], CLASSES).sum(1)
    backbone.train()
    return (votes.argmax(1) == queries[1]).float().mean().item()


def main():
    torch.set_num_threads(1)
    torch.manual_seed(61)
    gen = torch.Generator().manual_seed(61)
    train, valid, test = (gratings(n, gen) for n in (1300, 400, 400))
    mean, std = train[0].mean(), train[0].std()
    train, valid, test = (((x - mean) / std, y) for x, y in (train, valid, test))
    loader = DataLoader(TensorDataset(*train), batch_size=BATCH, shuffle=True, drop_last=True)

    student, teacher, probe = Network(), Network(), nn.Linear(48, CLASSES)
    teacher.load_state_dict(student.state_dict())
    teacher.requires_grad_(False)
    weights = [p for p in student.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW([{"params": [p for p in weights if p.ndim > 1], "weight_decay": 0.02},
                                   {"params": [p for p in weights if p.ndim <= 1], "weight_decay": 0.0}], lr=2e-3)
    probe_optimizer = torch.optim.SGD(probe.parameters(), lr=0.1, momentum=0.9)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=EPOCHS * len(loader))
    with torch.no_grad():
        centre = teacher(crop(train[0][:256], 13)).mean(0)
    for epoch in range(EPOCHS):
        total = probe_total = 0.0
        for x, y in loader:
            wide, narrow = [crop(x, 13) for _ in range(2)], [crop(x, 9)]
            with torch.no_grad():
                teacher_out = [teacher(v) for v in wide]
                features = student.backbone(x)
            self_loss = dino_loss([student(v) for v in wide + narrow], teacher_out, centre)
            probe_loss = F.cross_entropy(probe(features), y)
            optimizer.zero_grad()
            probe_optimizer.zero_grad()
            (self_loss + probe_loss).backward()
            if epoch == 0:
                student.last.parametrizations.weight.original1.grad = None
            nn.utils.clip_grad_norm_(weights, 3.0)
            optimizer.step()
            probe_optimizer.step()
            schedule.step()
            with torch.no_grad():
                centre.mul_(0.9).add_(torch.cat(teacher_out).mean(0), alpha=0.1)
                for t, s in zip(teacher.parameters(), student.parameters()):
                    t.mul_(0.98).add_(s, alpha=0.02)
            total, probe_total = total + self_loss.item(), probe_total + probe_loss.item()
        print(f"epoch {epoch} loss {total / len(loader):.3f} probe loss {probe_total / len(loader):.3f} "
              f"valid neighbours {nearest(teacher.backbone, train, valid):.3f}")
    print(f"test neighbours {nearest(teacher.backbone, train, test):.3f}")


if __name__ == "__main__":
    main()
