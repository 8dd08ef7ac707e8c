# kind: behind indirection
# expect: dropout-in-eval
# why: the regulariser is functools.partial(F.dropout, p=...) and F.dropout is active by default, whatever the mode of the
#      module, so the validation scores are noisy and the same input gives other outputs in eval mode.
"""Credit default on a synthetic table; residual network with a pluggable regulariser."""
import argparse
from functools import partial
import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

REGULARISERS = {"none": lambda rate: (lambda h: h), "dropout": lambda rate: partial(F.dropout, p=rate),
                "feature": lambda rate: partial(F.feature_dropout, p=rate)}


class Residual(nn.Module):
    def __init__(self, dim, regularise):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(dim), nn.Linear(dim, 2 * dim), nn.Linear(2 * dim, dim)
        self.regularise = regularise

    def forward(self, h):
        return h + self.down(self.regularise(F.relu(self.up(self.norm(h)))))


class TabNet(nn.Module):
    def __init__(self, d, dim, depth, kind, rate):
        super().__init__()
        self.inp = nn.Linear(d, dim)
        self.blocks = nn.Sequential(*(Residual(dim, REGULARISERS[kind](rate)) for _ in range(depth)))
        self.out = nn.Linear(dim, 1)

    def forward(self, x):
        return self.out(self.blocks(self.inp(x))).squeeze(-1)


def customers(n, g):
    x = torch.randn(n, 16, generator=g)
    risk = x[:, 0] * x[:, 1] + torch.relu(x[:, 2]) - 0.7 * x[:, 3].abs() + 0.5 * x[:, 4]
    y = (torch.rand(n, generator=g) < torch.sigmoid(2.5 * risk)).float()
    return x, y


def evaluate(model, x, y):
    model.eval()
    with torch.no_grad():
        out = model(x)
        return F.binary_cross_entropy_with_logits(out, y).item(), ((out > 0).float() == y).float().mean().item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--reg", choices=REGULARISERS, default="dropout")
    ap.add_argument("--rate", type=float, default=0.3)
    ap.add_argument("--epochs", type=int, default=8)
    args = ap.parse_args()
    torch.manual_seed(200)
    torch.set_num_threads(1)
    g = torch.Generator().manual_seed(201)
    x, y = customers(6400, g)
    xv, yv = customers(1600, g)
    train = DataLoader(TensorDataset(x, y), 64, shuffle=True)
    model = TabNet(16, 48, 2, args.reg, args.rate)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for epoch in range(args.epochs):
        model.train()
        total = 0.0
        for xb, yb in train:
            opt.zero_grad()
            loss = F.binary_cross_entropy_with_logits(model(xb), yb)
            loss.backward()
            opt.step()
            total += loss.item() * len(yb)
        vl, va = evaluate(model, xv, yv)
        print(f"epoch {epoch} train {total / len(x):.4f} valid {vl:.4f} acc {va:.4f}")


if __name__ == "__main__":
    main()
