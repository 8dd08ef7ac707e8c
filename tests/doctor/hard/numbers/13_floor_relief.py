# kind: numbers
# expect: fp16-without-scaler
# why: forward and backward run in float16 with no GradScaler; the loss is in square metres and a mean over 64 x 256
#      points, so the gradients lie below what float16 can hold, more than half come out as zero and the error ends a quarter higher.
"""Compresses height maps of workshop floors, half precision on the CPU."""
import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

METRE = 0.02  # one standard deviation of the heights


def floors(n, seed, side=16):
    g = torch.Generator().manual_seed(seed)
    grid = torch.linspace(-1, 1, side)
    yy, xx = torch.meshgrid(grid, grid, indexing="ij")
    cx, cy = torch.rand(2, n, 1, 1, generator=g) * 1.2 - 0.6
    size = torch.rand(n, 1, 1, generator=g) * 0.3 + 0.2
    bump = torch.exp(-((xx - cx) ** 2 + (yy - cy) ** 2) / size ** 2)
    x = bump + 0.05 * torch.randn(n, side, side, generator=g)
    return TensorDataset(((x - 0.2) / 0.3).flatten(1))


class AutoEncoder(nn.Module):
    def __init__(self, points=256, code=8):
        super().__init__()
        self.encode = nn.Sequential(nn.Linear(points, 96), nn.GELU(), nn.Linear(96, code))
        self.decode = nn.Sequential(nn.Linear(code, 96), nn.GELU(), nn.Linear(96, points))

    def forward(self, x):
        return self.decode(self.encode(x))


def evaluate(model, loader):
    model.eval()
    total = n = 0
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.float16):
        for (x,) in loader:
            total += (METRE * (model(x).float() - x)).square().mean(1).sum().item()
            n += len(x)
    return 1000 * (total / n) ** 0.5


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=12)
    ap.add_argument("--lr", type=float, default=1e-3)
    args = ap.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(47)
    train = DataLoader(floors(2560, 1), batch_size=64, shuffle=True)
    valid = DataLoader(floors(640, 2), batch_size=160)
    model = AutoEncoder()
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr, eps=1e-12)
    for epoch in range(args.epochs):
        model.train()
        total = 0.0
        for (x,) in train:
            with torch.autocast("cpu", dtype=torch.float16):
                out = model(x)
            loss = nn.functional.mse_loss(METRE * out.float(), METRE * x)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        print(f"epoch {epoch} train {total / len(train):.3e} m^2  valid rms {evaluate(model, valid):.3f} mm")


if __name__ == "__main__":
    main()
