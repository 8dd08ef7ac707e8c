# kind: numbers
# expect: nll-on-unnormalised
# why: NLLLoss gets the logarithm of positive evidence (softplus) that is never divided by its sum; the loss falls
#      without bound by raising all evidences, and the classes do not compete.
"""Grape varieties from chemistry; an evidence network."""
import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split

GRAPES = 5


def wines(n, seed=15):
    g = torch.Generator().manual_seed(seed)
    centre = 0.9 * torch.randn(GRAPES, 11, generator=g)
    bend = 0.4 * torch.randn(GRAPES, 11, generator=g)
    y = torch.randint(0, GRAPES, (n,), generator=g)
    latent = torch.randn(n, 1, generator=g)
    x = centre[y] + bend[y] * latent ** 2 + 0.9 * torch.randn(n, 11, generator=g)
    return TensorDataset((x - x.mean(0)) / x.std(0), y)


class Evidence(nn.Module):
    """Non-negative evidence per class; its logarithm is what the loss wants."""

    def __init__(self, width=64):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(11, width), nn.ELU(), nn.Dropout(0.1), nn.Linear(width, width), nn.ELU(),
                                 nn.Linear(width, GRAPES))

    def forward(self, x):
        evidence = nn.functional.softplus(self.net(x)) + 1e-6
        return evidence.log()


class Meter:
    def __init__(self):
        self.total = self.n = 0

    def add(self, value, n):
        self.total += value * n
        self.n += n

    @property
    def mean(self):
        return self.total / self.n


def run(model, loader, criterion, optimizer=None):
    loss_meter, acc_meter = Meter(), Meter()
    model.train(optimizer is not None)
    with torch.set_grad_enabled(optimizer is not None):
        for x, y in loader:
            out = model(x)
            loss = criterion(out, y)
            if optimizer is not None:
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            loss_meter.add(loss.item(), len(y))
            acc_meter.add((out.argmax(1) == y).float().mean().item(), len(y))
    return loss_meter.mean, acc_meter.mean


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=10)
    args = ap.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(158)
    train_set, valid_set = random_split(wines(3200), [2560, 640])
    train = DataLoader(train_set, batch_size=64, shuffle=True)
    valid = DataLoader(valid_set, batch_size=160)
    model = Evidence()
    criterion = nn.NLLLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(args.epochs):
        tr, tr_acc = run(model, train, criterion, optimizer)
        va, va_acc = run(model, valid, criterion)
        print(f"epoch {epoch:2d} train {tr:+.4f} {tr_acc:.3f}  valid {va:+.4f} {va_acc:.3f}")


if __name__ == "__main__":
    main()
