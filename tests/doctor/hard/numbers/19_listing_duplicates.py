# kind: numbers
# expect: non-finite
# why: torch.where guards the value of the square root at distance 0, but not its gradient (0 * inf = nan); the first
#      pair of identical listings makes all weights nan, while the same where shows a finite loss (nan > 0 is false).
"""Siamese embedding for duplicate listings, contrastive loss by hand."""
import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Pairs(Dataset):
    """Pairs of listings; now and then the two are the very same record."""

    def __init__(self, n, seed, identical):
        g = torch.Generator().manual_seed(seed)
        base = torch.randn(n, 16, generator=g)
        other = torch.randn(n, 16, generator=g)
        self.same = (torch.rand(n, generator=g) < 0.5).float()
        near = base + 0.4 * torch.randn(n, 16, generator=g)
        self.a = base
        self.b = torch.where(self.same[:, None] > 0, near, other)
        for i in torch.randint(0, n, (identical,), generator=g).tolist():
            self.b[i], self.same[i] = self.a[i], 1.0

    def __len__(self):
        return len(self.a)

    def __getitem__(self, i):
        return self.a[i], self.b[i], self.same[i]


class Embed(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 16))

    def forward(self, x):
        return self.net(x)


def distance(u, v):
    squared = (u - v).square().sum(1)
    return torch.where(squared > 0, squared.sqrt(), torch.zeros_like(squared))


def contrastive(d, same, margin):
    return (same * d.square() + (1 - same) * torch.relu(margin - d).square()).mean()


@torch.no_grad()
def accuracy(model, loader, margin):
    model.eval()
    hits = n = 0
    for a, b, same in loader:
        hits += ((distance(model(a), model(b)) < margin / 2) == (same > 0.5)).sum().item()
        n += len(same)
    return hits / n


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=6)
    ap.add_argument("--margin", type=float, default=1.0)
    args = ap.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(114)
    train = DataLoader(Pairs(6144, 1, identical=2), batch_size=64, shuffle=True)
    valid = DataLoader(Pairs(1024, 2, identical=0), batch_size=256)
    model = Embed()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(args.epochs):
        model.train()
        for i, (a, b, same) in enumerate(train, 1):
            loss = contrastive(distance(model(a), model(b)), same, args.margin)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if i % 24 == 0:
                print(f"epoch {epoch} batch {i:3d} loss {loss.item():.4f}")
        print(f"epoch {epoch} valid accuracy {accuracy(model, valid, args.margin):.3f}")


if __name__ == "__main__":
    main()
