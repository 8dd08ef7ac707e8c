# kind: several losses and optimizers
# expect: nothing
# like: foreign-gradients
# why: the features' optimizer uses the domain loss too, reversed by a gradient reversal layer: that is DANN. One
#      backward of the sum, all three optimizers are cleared before it.
"""Domain-adversarial training: labels from scanner A only, tissue on scanner B has to be told apart as well."""
import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Reverse(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, strength):
        ctx.strength = strength
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        return -ctx.strength * grad, None


def scans(n, seed, shifted):
    g = torch.Generator().manual_seed(seed)
    proto = torch.randn(3, 12, generator=torch.Generator().manual_seed(55))
    y = torch.randint(0, 3, (n,), generator=g)
    x = 0.6 * proto[y] + 0.9 * torch.randn(n, 12, generator=g)
    if shifted:
        x = x + 0.8 * torch.linspace(-1, 1, 12)
    return x, y


class Dann(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Linear(12, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU())
        self.tissue = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 3))
        self.scanner = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, x, strength):
        h = self.features(x)
        return self.tissue(h), self.scanner(Reverse.apply(h, strength)).squeeze(1)


@torch.no_grad()
def accuracy(model, x, y):
    model.eval()
    return (model.tissue(model.features(x)).argmax(1) == y).float().mean().item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=12)
    ap.add_argument("--strength", type=float, default=0.2)
    args = ap.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(14)
    xa, ya = scans(2560, 1, shifted=False)
    xb, _ = scans(2560, 2, shifted=True)
    va, vb = scans(600, 3, shifted=False), scans(600, 4, shifted=True)
    source = DataLoader(TensorDataset(xa, ya), batch_size=64, shuffle=True)
    target = DataLoader(TensorDataset(xb), batch_size=64, shuffle=True)

    model = Dann()
    optimizers = [
        torch.optim.SGD(model.features.parameters(), lr=0.03, momentum=0.9),
        torch.optim.SGD(model.tissue.parameters(), lr=0.03, momentum=0.9),
        torch.optim.Adam(model.scanner.parameters(), lr=1e-3),
    ]
    ce, bce = nn.CrossEntropyLoss(), nn.BCEWithLogitsLoss()
    for epoch in range(args.epochs):
        strength = args.strength * min(1.0, epoch / 4)
        model.train()
        sums = [0.0, 0.0]
        for (x, y), (u,) in zip(source, target):
            tissue, scanner = model(torch.cat([x, u]), strength)
            label_loss = ce(tissue[:len(x)], y)
            domain = torch.cat([torch.zeros(len(x)), torch.ones(len(u))])
            domain_loss = bce(scanner, domain)
            for o in optimizers:
                o.zero_grad()
            (label_loss + domain_loss).backward()
            for o in optimizers:
                o.step()
            sums[0] += label_loss.item()
            sums[1] += domain_loss.item()
        n = len(source)
        print(f"epoch {epoch:2d} tissue {sums[0] / n:.4f} scanner {sums[1] / n:.4f} "
              f"accuracy A {accuracy(model, *va):.3f} B {accuracy(model, *vb):.3f}")


if __name__ == "__main__":
    main()
