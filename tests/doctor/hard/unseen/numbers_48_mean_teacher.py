# kind: numbers
# expect: nothing
# like: frozen-parameter-moves
# why: the teacher's parameters have requires_grad False and move all the same, because they are the
#   running average of the student's, which is what a mean teacher is.
import copy
import itertools

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def spirals(n, noise, generator):
    arm = torch.randint(0, 3, (n,), generator=generator)
    r = torch.rand(n, generator=generator) * 0.85 + 0.15
    a = 4.0 * r + arm * (2 * torch.pi / 3) + noise * torch.randn(n, generator=generator)
    return torch.stack([5 * r * a.cos() + 2, 5 * r * a.sin() - 1], 1), arm


class Classifier(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.a = nn.Linear(2, width)
        self.b = nn.Linear(width, width)
        self.drop = nn.Dropout(0.1)
        self.c = nn.Linear(width, 3)

    def forward(self, x):
        h = F.relu(self.a(x))
        h = self.drop(F.relu(self.b(h)))
        return self.c(h)


class MeanTeacher:
    def __init__(self, student, keep=0.98):
        self.student, self.keep = student, keep
        self.teacher = copy.deepcopy(student)
        for p in self.teacher.parameters():
            p.requires_grad = False
        self.teacher.eval()

    def consistency(self, x):
        with torch.no_grad():
            goal = F.softmax(self.teacher(x), dim=1)
        view = x + 0.05 * torch.randn_like(x)
        return (F.softmax(self.student(view), dim=1) - goal).square().sum(1).mean()

    def update(self, step):
        keep = min(self.keep, 1 - 1 / (step + 1))
        with torch.no_grad():
            for slow, fast in zip(self.teacher.parameters(), self.student.parameters()):
                slow.copy_(keep * slow + (1 - keep) * fast)


def evaluate(model, loader):
    was = model.training
    model.eval()
    correct = count = 0
    with torch.no_grad():
        for x, y in loader:
            correct += model(x).argmax(1).eq(y).sum().item()
            count += len(y)
    model.train(was)
    return correct / count


def main():
    torch.manual_seed(15)
    g = torch.Generator().manual_seed(150)
    x, y = spirals(3000, 0.15, g)
    lx, ux, vx = x[:200], x[200:2400], x[2400:]
    known = x[:2400]
    mean, std = known.mean(0), known.std(0)
    lx, ux, vx = ((p - mean) / std for p in (lx, ux, vx))
    labelled = DataLoader(TensorDataset(lx, y[:200]), batch_size=40, shuffle=True)
    unlabelled = DataLoader(TensorDataset(ux), batch_size=88, shuffle=True)
    valid = DataLoader(TensorDataset(vx, y[2400:]), batch_size=200)

    def endless(loader):
        for _ in itertools.count():
            yield from loader

    student = Classifier()
    pair = MeanTeacher(student)
    optimizer = torch.optim.Adam(student.parameters(), lr=5e-3)
    stream = endless(labelled)
    step = 0
    for epoch in range(14):
        student.train()
        sup_sum = con_sum = 0.0
        for (ub,) in unlabelled:
            lb, yb = next(stream)
            ramp = min(1.0, step / 100)
            supervised = F.cross_entropy(student(lb), yb)
            consistent = pair.consistency(ub)
            loss = supervised + ramp * consistent
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            pair.update(step)
            sup_sum += supervised.item()
            con_sum += consistent.item()
        k = len(unlabelled)
        print(f"epoch {epoch:2d} sup {sup_sum / k:.4f} con {con_sum / k:.4f} "
              f"student {evaluate(student, valid):.3f} teacher {evaluate(pair.teacher, valid):.3f}")


if __name__ == "__main__":
    main()
