# kind: without a DataLoader
# expect: accumulation-tail
# why: an epoch has 50 micro-batches and a step is made after every eighth, so the last two are left: their gradients stay
#      in .grad and leak into the first step of the next epoch (ten micro-batches there, and at the end they are lost).
"""Denoising of short images with gradient accumulation over a hand-made permutation."""
import argparse
import torch
from torch import nn
import torch.nn.functional as F


def scenes(n, g, size=16):
    yy, xx = torch.meshgrid(torch.linspace(-1, 1, size), torch.linspace(-1, 1, size), indexing="ij")
    a, b, c = (torch.randn(n, 1, 1, generator=g) for _ in range(3))
    clean = torch.sin(3 * (a * xx + b * yy) + c)
    clean = clean / 0.7
    noisy = clean + 0.7 * torch.randn(n, size, size, generator=g)
    return noisy[:, None], clean[:, None]


class Denoiser(nn.Module):
    def __init__(self, h):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(1, h, 3, padding=1), nn.ReLU(), nn.Conv2d(h, h, 3, padding=1), nn.ReLU(),
                                 nn.Conv2d(h, h, 3, padding=1), nn.ReLU(), nn.Conv2d(h, 1, 3, padding=1))

    def forward(self, x):
        return x - self.net(x)


def epoch_of(x, y, size):
    for idx in torch.randperm(len(x)).split(size):
        yield x[idx], y[idx]


class Accumulator:
    def __init__(self, opt, every):
        self.opt, self.every = opt, every

    def __call__(self, i, loss):
        (loss / self.every).backward()
        if (i + 1) % self.every == 0:
            self.opt.step()
            self.opt.zero_grad()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=26)
    ap.add_argument("--micro", type=int, default=8)
    ap.add_argument("--accumulate", type=int, default=8)
    args = ap.parse_args()
    torch.manual_seed(109)
    torch.set_num_threads(1)
    g = torch.Generator().manual_seed(1090)
    x, y = scenes(400, g)
    xv, yv = scenes(100, g)
    model = Denoiser(16)
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    accumulate = Accumulator(opt, args.accumulate)
    for epoch in range(args.epochs):
        model.train()
        total = 0.0
        for i, (xb, yb) in enumerate(epoch_of(x, y, args.micro)):
            loss = F.mse_loss(model(xb), yb)
            accumulate(i, loss)
            total += loss.item() * len(xb)
        model.eval()
        with torch.no_grad():
            v = F.mse_loss(model(xv), yv).item()
        print(f"epoch {epoch:2d} train {total / len(x):.4f} valid {v:.4f}")


if __name__ == "__main__":
    main()
