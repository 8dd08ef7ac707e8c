# kind: without a DataLoader
# expect: not-shuffled
# why: the spectra stand class by class in memory and every epoch walks over the same slices in the same order, so each
#      batch has one class only and the network chases the class it saw last.
"""Classification of absorption spectra with a multi-layer perceptron; batches are slices of the arrays."""
import argparse
import torch
from torch import nn
import torch.nn.functional as F

CLASSES = 6


def spectra(per_class, g):
    axis = torch.linspace(0, 1, 80)
    xs, ys = [], []
    for c in range(CLASSES):
        centre = 0.25 + 0.08 * c + 0.03 * torch.randn(per_class, 1, generator=g)
        width = 0.05 + 0.01 * torch.rand(per_class, 1, generator=g)
        peak = torch.exp(-0.5 * ((axis - centre) / width) ** 2)
        xs.append(peak + 0.25 * torch.randn(per_class, 80, generator=g))
        ys.append(torch.full((per_class,), c))
    return torch.cat(xs), torch.cat(ys)


class Standardise:
    def __init__(self, x):
        self.mu, self.sd = x.mean(0), x.std(0)

    def __call__(self, x):
        return (x - self.mu) / self.sd


def batches(x, y, size):
    for start in range(0, len(x), size):
        yield x[start:start + size], y[start:start + size]


@torch.no_grad()
def evaluate(model, x, y):
    model.eval()
    out = model(x)
    return F.cross_entropy(out, y).item(), (out.argmax(1) == y).float().mean().item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=10)
    ap.add_argument("--batch", type=int, default=32)
    ap.add_argument("--lr", type=float, default=1e-3)
    args = ap.parse_args()
    torch.manual_seed(102)
    torch.set_num_threads(1)
    g = torch.Generator().manual_seed(1020)
    x, y = spectra(640, g)
    xv, yv = spectra(128, g)
    scale = Standardise(x)
    x, xv = scale(x), scale(xv)
    model = nn.Sequential(nn.Linear(80, 128), nn.ReLU(), nn.Dropout(0.2), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, CLASSES))
    opt = torch.optim.Adam(model.parameters(), lr=args.lr)
    for epoch in range(args.epochs):
        model.train()
        total = 0.0
        for xb, yb in batches(x, y, args.batch):
            opt.zero_grad()
            loss = F.cross_entropy(model(xb), yb)
            loss.backward()
            opt.step()
            total += loss.item() * len(yb)
        vl, va = evaluate(model, xv, yv)
        print(f"epoch {epoch} train {total / len(x):.4f} valid {vl:.4f} acc {va:.3f}")


if __name__ == "__main__":
    main()
