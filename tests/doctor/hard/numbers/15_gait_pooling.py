# kind: numbers
# expect: softmax-wrong-dim
# also: batch-mixed
# why: the attention weights (batch, time, 1) are normalised by hand over dimension 0, the batch, where time was meant:
#      a step's weight depends on the other people in the batch and a sequence's weights do not sum to one.
"""Gait classification: convolution and attention pooling over time."""

import argparse
import math

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

GAITS = 4


def walks(n, seed, length=50):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, GAITS, (n,), generator=g)
    x = 0.7 * torch.randn(n, length, 3, generator=g)
    t = torch.arange(12) / 12
    for k in range(GAITS):
        rows = (y == k).nonzero().squeeze(1)
        motif = torch.stack([torch.sin(2 * math.pi * (k + 1) * t), torch.cos(2 * math.pi * (k + 1) * t), t - 0.5], 1)
        for r in rows.tolist():
            s = int(torch.randint(0, length - 12, (1,), generator=g))
            x[r, s : s + 12] += 1.5 * motif
    return TensorDataset(x / 0.85, y)


class AttentionPool(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.score = nn.Sequential(nn.Linear(dim, 24), nn.Tanh(), nn.Linear(24, 1))

    def forward(self, h):
        s = self.score(h)
        e = torch.exp(s - s.max())
        a = e / e.sum(0, keepdim=True)
        return (a * h).sum(1)


class GaitNet(nn.Module):
    def __init__(self, dim=32):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv1d(3, dim, 7, padding=3), nn.ReLU(), nn.Conv1d(dim, dim, 5, padding=2), nn.ReLU())
        self.pool = AttentionPool(dim)
        self.out = nn.Linear(dim, GAITS)

    def forward(self, x):
        h = self.conv(x.transpose(1, 2)).transpose(1, 2)
        return self.out(self.pool(h))


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    hits = n = 0
    for x, y in loader:
        hits += (model(x).argmax(1) == y).sum().item()
        n += len(y)
    return hits / n


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=8)
    args = ap.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(69)
    train = DataLoader(walks(1600, 1), batch_size=64, shuffle=True, drop_last=True)
    valid = DataLoader(walks(512, 2), batch_size=64)
    model = GaitNet()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    criterion = nn.CrossEntropyLoss()
    for epoch in range(args.epochs):
        model.train()
        total = 0.0
        for x, y in train:
            loss = criterion(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        print(f"epoch {epoch} loss {total / len(train):.4f} accuracy {evaluate(model, valid):.3f}")


if __name__ == "__main__":
    main()
