# kind: behind indirection
# expect: teacher-shares-weights
# why: the teacher is filled with load_state_dict(..., assign=True), which makes its parameters share the student's memory;
#      teacher and student are the same weights for ever and the averaging mixes a tensor with itself.
"""Noisy-label image classification with a slowly moving teacher that supplies soft targets."""
import argparse
import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


def network(classes):
    return nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(),
                         nn.AdaptiveAvgPool2d(3), nn.Flatten(), nn.Linear(288, classes))


class Teacher:
    """A network of the same shape that follows the student by exponential averaging."""

    def __init__(self, factory, student, decay):
        self.net = factory()
        self.net.load_state_dict(student.state_dict(), assign=True)
        self.net.requires_grad_(False).eval()
        self.pairs = list(zip(self.net.parameters(), student.parameters()))
        self.decay = decay

    @torch.no_grad()
    def follow(self):
        for mine, live in self.pairs:
            mine.lerp_(live, 1 - self.decay)

    @torch.no_grad()
    def targets(self, x, y, classes, trust):
        soft = self.net(x).softmax(1)
        return trust * soft + (1 - trust) * F.one_hot(y, classes).float()


def shapes(n, g, noise):
    y = torch.randint(0, 4, (n,), generator=g)
    x = 0.6 * torch.randn(n, 1, 12, 12, generator=g)
    at = torch.randint(1, 6, (n, 2), generator=g)
    for i, (c, (r, q)) in enumerate(zip(y.tolist(), at.tolist())):
        patch = x[i, 0, r:r + 5, q:q + 5]
        if c in (0, 2):
            patch[2] += 1.8
        if c in (1, 2):
            patch[:, 2] += 1.8
        if c == 3:
            patch += 1.8 * torch.eye(5)
    flip = torch.rand(n, generator=g) < noise
    return TensorDataset((x - x.mean()) / x.std(), torch.where(flip, torch.randint(0, 4, (n,), generator=g), y))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=7)
    ap.add_argument("--trust", type=float, default=0.4)
    args = ap.parse_args()
    torch.manual_seed(25)
    torch.set_num_threads(1)
    g = torch.Generator().manual_seed(250)
    train, valid = DataLoader(shapes(2400, g, 0.15), 24, shuffle=True), shapes(600, g, 0.0)
    student = network(4)
    teacher = Teacher(lambda: network(4), student, decay=0.98)
    opt = torch.optim.Adam(student.parameters(), lr=2e-3)
    for epoch in range(args.epochs):
        student.train()
        total = 0.0
        for x, y in train:
            opt.zero_grad()
            loss = F.cross_entropy(student(x), teacher.targets(x, y, 4, args.trust))
            loss.backward()
            opt.step()
            teacher.follow()
            total += loss.item() * len(y)
        student.eval()
        with torch.no_grad():
            x, y = valid.tensors
            accs = [(m(x).argmax(1) == y).float().mean().item() for m in (student, teacher.net)]
        print(f"epoch {epoch} loss {total / 2400:.4f} valid student {accs[0]:.4f} teacher {accs[1]:.4f}")


if __name__ == "__main__":
    main()
