# kind: behind indirection
# expect: nothing
# like: softmax-before-cross-entropy
# why: the heads return softmax probabilities, but they are mixed and their logarithm goes into nll_loss: a proper
#      mixture-of-experts likelihood, not probabilities fed to cross-entropy.
"""Mixture of softmaxes on tabular data, written as a composed pipeline of small functions."""
import argparse
import functools
import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

compose = lambda *fs: lambda x: functools.reduce(lambda acc, f: f(acc), fs, x)


class Experts(nn.Module):
    def __init__(self, d, h, classes, k):
        super().__init__()
        self.stem = nn.Sequential(nn.Linear(d, h), nn.ReLU(), nn.Dropout(0.1))
        self.gate = nn.Linear(h, k)
        self.heads = nn.ModuleList(nn.Linear(h, classes) for _ in range(k))

    def experts(self, z):
        return z, torch.stack([head(z).softmax(-1) for head in self.heads], 1)

    def mix(self, pair):
        z, p = pair
        return torch.einsum("bk,bkc->bc", self.gate(z).softmax(-1), p)

    def forward(self, x):
        return compose(self.stem, self.experts, self.mix)(x)


def rings(n, classes, g):
    y = torch.randint(0, classes, (n,), generator=g)
    a = 6.2832 * torch.rand(n, generator=g)
    r = 0.5 + 0.6 * y + 0.12 * torch.randn(n, generator=g)
    x = torch.stack([r * a.cos(), r * a.sin()], 1)
    return torch.cat([x, torch.randn(n, 6, generator=g)], 1), y


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=10)
    ap.add_argument("--experts", type=int, default=4)
    args = ap.parse_args()
    torch.manual_seed(21)
    torch.set_num_threads(1)
    g = torch.Generator().manual_seed(22)
    x, y = rings(6000, 4, g)
    xv, yv = rings(1000, 4, g)
    mu, sd = x.mean(0), x.std(0)
    scale = lambda t: (t - mu) / sd
    train = DataLoader(TensorDataset(scale(x), y), batch_size=60, shuffle=True)
    model = Experts(8, 64, 4, args.experts)
    criterion = compose(lambda py: (py[0].clamp_min(1e-8).log(), py[1]), lambda ly: F.nll_loss(*ly))
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    for epoch in range(args.epochs):
        model.train()
        total = 0.0
        for xb, yb in train:
            opt.zero_grad(set_to_none=True)
            loss = criterion((model(xb), yb))
            loss.backward()
            opt.step()
            total += loss.item() * len(yb)
        model.eval()
        with torch.no_grad():
            p = model(scale(xv))
            print(f"epoch {epoch} nll {total / len(x):.4f} valid nll {criterion((p, yv)):.4f} acc {(p.argmax(1) == yv).float().mean():.3f}")


if __name__ == "__main__":
    main()
