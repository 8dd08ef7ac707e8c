# kind: behind indirection
# expect: nothing
# like: dead-parameter
# why: weights are rounded to 3 bits in the forward, and rounding has gradient zero, but the custom Function passes the
#      gradient straight through, so every latent weight gets a gradient and the network learns.
"""Quantisation-aware training of a small signal classifier with a straight-through estimator."""
import argparse
import torch
from torch import nn
import torch.nn.functional as F
from torch.nn.utils import parametrize
from torch.utils.data import DataLoader, TensorDataset


class RoundSTE(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return torch.round(x)

    @staticmethod
    def backward(ctx, grad):
        return grad.clone()


class FakeQuant(nn.Module):
    def __init__(self, bits):
        super().__init__()
        self.levels = 2 ** (bits - 1) - 1

    def forward(self, w):
        step = w.detach().abs().amax(tuple(range(1, w.dim())), keepdim=True).clamp_min(1e-8) / self.levels
        return RoundSTE.apply(w / step) * step


def quantise(model, bits):
    for m in list(model.modules()):
        if isinstance(m, (nn.Conv1d, nn.Linear)):
            parametrize.register_parametrization(m, "weight", FakeQuant(bits))
    return model


def beats(n, g):
    y = torch.randint(0, 4, (n,), generator=g)
    t = torch.arange(96)
    centre = 30 + 36 * torch.rand(n, 1, generator=g)
    width = (3.0 + 2.5 * (y % 2).float())[:, None]
    sign = torch.where(y >= 2, -1.0, 1.0)[:, None]
    x = 2.5 * sign * torch.exp(-0.5 * ((t - centre) / width) ** 2) + 0.8 * torch.randn(n, 96, generator=g)
    return ((x - x.mean()) / x.std())[:, None], y


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--bits", type=int, default=3)
    ap.add_argument("--epochs", type=int, default=8)
    args = ap.parse_args()
    torch.manual_seed(31)
    torch.set_num_threads(1)
    g = torch.Generator().manual_seed(32)
    x, y = beats(3200, g)
    xv, yv = beats(640, g)
    loader = DataLoader(TensorDataset(x, y), 32, shuffle=True)
    model = quantise(nn.Sequential(nn.Conv1d(1, 12, 9, stride=2, padding=4), nn.ReLU(), nn.Conv1d(12, 24, 7, stride=2, padding=3),
                                   nn.ReLU(), nn.AdaptiveMaxPool1d(4), nn.Flatten(), nn.Linear(96, 4)), args.bits)
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    for epoch in range(args.epochs):
        model.train()
        total = 0.0
        for xb, yb in loader:
            with parametrize.cached():
                loss = F.cross_entropy(model(xb), yb)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(yb)
        model.eval()
        with torch.no_grad():
            acc = (model(xv).argmax(1) == yv).float().mean().item()
        print(f"epoch {epoch} loss {total / len(x):.4f} valid acc {acc:.3f}")


if __name__ == "__main__":
    main()
