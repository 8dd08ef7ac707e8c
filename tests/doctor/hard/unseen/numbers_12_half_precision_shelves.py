# kind: numbers
# expect: nothing
# like: clip-before-unscale
# why: the clipping comes after unscale_ and once per accumulation of four micro-batches; losses are divided by four,
#      the number of batches is a multiple of four, the scaler steps and updates once per cycle.
"""Shelf stock from camera features: float16 autocast, accumulation, clipping."""
import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def shelves(n, seed):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 30, generator=g)
    mix = torch.randn(30, 3, generator=torch.Generator().manual_seed(5)) / 30 ** 0.5
    y = torch.tanh(x @ mix) + 0.3 * x[:, :3].abs() + 0.05 * torch.randn(n, 3, generator=g)
    return TensorDataset(x, y)


class Shelf(nn.Module):
    def __init__(self, width=96):
        super().__init__()
        self.stem = nn.Linear(30, width)
        self.mid = nn.Sequential(nn.LayerNorm(width), nn.GELU(), nn.Linear(width, width), nn.GELU())
        self.out = nn.Linear(width, 3)

    def forward(self, x):
        h = self.stem(x)
        return self.out(h + self.mid(h))


def train_epoch(model, loader, optimizer, scaler, every, clip):
    model.train()
    total = 0.0
    optimizer.zero_grad()
    for i, (x, y) in enumerate(loader, 1):
        with torch.autocast("cpu", dtype=torch.float16):
            out = model(x)
        loss = nn.functional.mse_loss(out.float(), y)
        scaler.scale(loss / every).backward()
        total += loss.item()
        if i % every == 0:
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), clip)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
    return total / len(loader)


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    total = n = 0
    for x, y in loader:
        with torch.autocast("cpu", dtype=torch.float16):
            out = model(x)
        total += nn.functional.mse_loss(out.float(), y).item() * len(y)
        n += len(y)
    return total / n


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=12)
    ap.add_argument("--every", type=int, default=4)
    ap.add_argument("--clip", type=float, default=1.0)
    args = ap.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(36)
    train = DataLoader(shelves(3072, 1), batch_size=32, shuffle=True, drop_last=True)
    assert len(train) % args.every == 0
    valid = DataLoader(shelves(768, 2), batch_size=256)
    model = Shelf()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 12)
    for epoch in range(args.epochs):
        loss = train_epoch(model, train, optimizer, scaler, args.every, args.clip)
        print(f"epoch {epoch:2d} train {loss:.4f} valid {evaluate(model, valid):.4f} scale {scaler.get_scale():.0f}")


if __name__ == "__main__":
    main()
