# kind: several losses and optimizers
# expect: teacher-shares-weights
# also: leaf-written-in-place
# why: copy.copy copies the module shallowly: the mean teacher has the student's very parameters, so the target is the
#      student of this moment, and the in-place average shrinks each weight by 0.04 % per step (0.98 w * 1.02).
"""Mean teacher: few labelled leaves, many unlabelled ones."""
import argparse
import copy

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def leaves(n, seed):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, 3, (n,), generator=g)
    t = torch.rand(n, generator=g) * 2.2
    r = 0.6 + 0.5 * t
    a = t + y * 2.094
    x = torch.stack([r * a.cos(), r * a.sin()], 1)
    extra = 0.5 * torch.randn(n, 6, generator=g)
    return torch.cat([x + 0.08 * torch.randn(n, 2, generator=g), extra], 1), y


class LeafNet(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.features = nn.Sequential(nn.Linear(8, width), nn.LayerNorm(width), nn.ReLU(),
                                      nn.Linear(width, width), nn.LayerNorm(width), nn.ReLU())
        self.head = nn.Linear(width, 3)

    def forward(self, x):
        return self.head(self.features(x))


class MeanTeacher:
    def __init__(self, student, decay):
        self.model = copy.copy(student)
        self.decay = decay

    @torch.no_grad()
    def update(self, student):
        for t, s in zip(self.model.parameters(), student.parameters()):
            t.mul_(self.decay).add_(s, alpha=1 - self.decay)

    @torch.no_grad()
    def targets(self, x):
        return self.model(x).softmax(1)


def jitter(x):
    return x + 0.1 * torch.randn_like(x)


@torch.no_grad()
def accuracy(model, x, y):
    model.eval()
    return (model(x).argmax(1) == y).float().mean().item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=15)
    ap.add_argument("--decay", type=float, default=0.98)
    ap.add_argument("--consistency", type=float, default=2.0)
    args = ap.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(51)
    xl, yl = leaves(192, 1)
    xu, _ = leaves(2560, 2)
    xv, yv = leaves(1000, 3)
    labelled = DataLoader(TensorDataset(xl, yl), batch_size=32, shuffle=True)
    unlabelled = DataLoader(TensorDataset(xu), batch_size=64, shuffle=True)

    student = LeafNet()
    teacher = MeanTeacher(student, args.decay)
    optimizer = torch.optim.Adam(student.parameters(), lr=1e-3)
    for epoch in range(args.epochs):
        ramp = min(1.0, (epoch + 1) / 5)
        student.train()
        sup = con = 0.0
        it = iter(labelled)
        for (u,) in unlabelled:
            try:
                x, y = next(it)
            except StopIteration:
                it = iter(labelled)
                x, y = next(it)
            ce = F.cross_entropy(student(jitter(x)), y)
            consistency = F.mse_loss(student(jitter(u)).softmax(1), teacher.targets(jitter(u)))
            loss = ce + ramp * args.consistency * consistency
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            teacher.update(student)
            sup, con = sup + ce.item(), con + consistency.item()
        n = len(unlabelled)
        print(f"epoch {epoch:2d} ce {sup / n:.4f} consistency {con / n:.5f} "
              f"student {accuracy(student, xv, yv):.3f} teacher {accuracy(teacher.model, xv, yv):.3f}")


if __name__ == "__main__":
    main()
