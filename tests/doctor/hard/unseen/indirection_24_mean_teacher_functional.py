# kind: behind indirection
# expect: nothing
# like: teacher-shares-weights
# why: the teacher runs through the very same module object, but functional_call puts a separate dictionary of cloned,
#      averaged tensors in its place, so teacher and student weights differ and only the student is trained.
"""Semi-supervised two-moons-in-noise with a mean teacher expressed through functional_call."""
import argparse
import torch
from torch import nn
from torch.func import functional_call
import torch.nn.functional as F


class MeanTeacher:
    def __init__(self, student, decay):
        self.student, self.decay = student, decay
        self.weights = {k: p.detach().clone() for k, p in student.named_parameters()}

    @torch.no_grad()
    def __call__(self, x):
        return functional_call(self.student, self.weights, (x,))

    @torch.no_grad()
    def follow(self):
        for k, p in self.student.named_parameters():
            self.weights[k].lerp_(p, 1 - self.decay)


def moons(n, g):
    y = torch.randint(0, 2, (n,), generator=g)
    a = 3.1416 * torch.rand(n, generator=g)
    x = torch.stack([a.cos() + y, torch.where(y == 0, a.sin(), 0.5 - a.sin())], 1) + 0.12 * torch.randn(n, 2, generator=g)
    x = (x - torch.tensor([0.5, 0.25])) / torch.tensor([0.87, 0.5])
    return torch.cat([x, torch.randn(n, 4, generator=g)], 1), y


def jitter(x):
    return x + 0.1 * torch.randn_like(x)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=12)
    ap.add_argument("--labelled", type=int, default=160)
    ap.add_argument("--weight", type=float, default=2.0)
    args = ap.parse_args()
    torch.manual_seed(28)
    torch.set_num_threads(1)
    g = torch.Generator().manual_seed(280)
    xl, yl = moons(args.labelled, g)
    xu, _ = moons(3840, g)
    xv, yv = moons(1000, g)
    student = nn.Sequential(nn.Linear(6, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2))
    teacher = MeanTeacher(student, 0.98)
    opt = torch.optim.AdamW(student.parameters(), lr=2e-3, weight_decay=1e-2)
    for epoch in range(args.epochs):
        student.train()
        sup = con = 0.0
        batches = torch.randperm(len(xu)).split(64)
        for idx in batches:
            pick = torch.randint(0, len(xl), (32,))
            supervised = F.cross_entropy(student(jitter(xl[pick])), yl[pick])
            target = teacher(jitter(xu[idx])).softmax(1)
            consistency = F.mse_loss(student(jitter(xu[idx])).softmax(1), target)
            loss = supervised + args.weight * consistency
            opt.zero_grad()
            loss.backward()
            opt.step()
            teacher.follow()
            sup += supervised.item()
            con += consistency.item()
        student.eval()
        with torch.no_grad():
            s = (student(xv).argmax(1) == yv).float().mean().item()
            t = (teacher(xv).argmax(1) == yv).float().mean().item()
        print(f"epoch {epoch:2d} supervised {sup / len(batches):.4f} consistency {con / len(batches):.5f} valid student {s:.3f} teacher {t:.3f}")


if __name__ == "__main__":
    main()
