# kind: behind indirection
# expect: nothing
# like: frozen-batchnorm-moves
# why: The trunk is frozen and the loop calls model.train() every epoch, but freezing also swaps the trunk's class for a
#      generated subclass whose train() always means eval, so the BatchNorm statistics stay as they are.
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def frozen(module):
    """Give a module a class that cannot be trained: no gradients and no train mode."""
    base = type(module)

    def train(self, mode=True):
        return base.train(self, False)

    module.__class__ = type("Frozen" + base.__name__, (base,), {"train": train, "__module__": base.__module__})
    return module.requires_grad_(False).train()


class Trunk(nn.Module):
    def __init__(self, w=12):
        super().__init__()
        self.c1, self.b1 = nn.Conv2d(1, w, 5, padding=2, bias=False), nn.BatchNorm2d(w)
        self.c2, self.b2 = nn.Conv2d(w, 2 * w, 3, padding=1, bias=False), nn.BatchNorm2d(2 * w)
        self.width = 2 * w * 4

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.b1(self.c1(x))), 2)
        x = F.relu(self.b2(self.c2(x)))
        return F.adaptive_avg_pool2d(x, 2).flatten(1)


class Classifier(nn.Module):
    def __init__(self, trunk, classes):
        super().__init__()
        self.trunk = trunk
        self.head = nn.Sequential(nn.Linear(trunk.width, 48), nn.ReLU(), nn.Dropout(0.2), nn.Linear(48, classes))

    def forward(self, x):
        return self.head(self.trunk(x))


def weaves(n, kinds, g):
    """Fabric patches: each kind has an orientation and a spatial frequency."""
    grid = torch.linspace(-1, 1, 16)
    yy, xx = torch.meshgrid(grid, grid, indexing="ij")
    which = torch.randint(0, len(kinds), (n,), generator=g)
    angle, freq = torch.tensor(kinds)[which].unbind(1)
    phase = 6.283 * torch.rand(n, 1, 1, generator=g)
    wave = torch.sin(freq[:, None, None] * (xx * angle.cos()[:, None, None] + yy * angle.sin()[:, None, None]) + phase)
    img = wave + 0.8 * torch.randn(n, 16, 16, generator=g)
    return img[:, None] / 1.07, which


def split(x, y, n, batch):
    return DataLoader(TensorDataset(x[:n], y[:n]), batch, shuffle=True), DataLoader(TensorDataset(x[n:], y[n:]), 128)


def fit(model, params, loaders, epochs, lr, title):
    train, valid = loaders
    opt = torch.optim.Adam(params, lr=lr)
    for epoch in range(epochs):
        model.train()
        total = seen = 0
        for x, y in train:
            opt.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            opt.step()
            total, seen = total + loss.item() * len(y), seen + len(y)
        model.eval()
        with torch.no_grad():
            right = sum((model(x).argmax(1) == y).sum().item() for x, y in valid)
        print(f"{title} {epoch} loss {total / seen:.4f} valid acc {right / len(valid.dataset):.3f}")


def main():
    torch.manual_seed(55)
    g = torch.Generator().manual_seed(56)
    source = split(*weaves(960, [(0.0, 6.0), (0.8, 6.0), (1.6, 10.0), (2.4, 10.0), (0.4, 14.0), (1.2, 14.0)], g), 768, 32)
    first = Classifier(Trunk(), 6)
    fit(first, first.parameters(), source, 4, 3e-3, "source")

    target = split(*weaves(720, [(0.2, 8.0), (1.0, 8.0), (1.8, 12.0), (2.6, 12.0)], g), 576, 32)
    second = Classifier(frozen(copy.deepcopy(first.trunk)), 4)
    before = {k: v.clone() for k, v in second.trunk.state_dict().items()}
    fit(second, second.head.parameters(), target, 7, 3e-3, "target")
    moved = [k for k, v in second.trunk.state_dict().items() if not torch.equal(v, before[k])]
    print("changed in the trunk:", moved or "nothing")


main()
