# kind: without a DataLoader
# expect: nothing
# like: accumulation-tail
# why: an epoch has 30 micro-batches and a cycle has 4, but the rest of an epoch is flushed with its own step, scaled by
#      the number of samples that it really has, so nothing is lost and nothing leaks.
"""Gradient accumulation by sample weights over a hand-made permutation, for a molecular-property table."""
import argparse
import torch
from torch import nn
import torch.nn.functional as F


def molecules(n, g):
    bits = (torch.rand(n, 64, generator=g) < 0.25).float()
    w = torch.randn(64, generator=torch.Generator().manual_seed(4))
    pair = bits[:, :8].unsqueeze(2) * bits[:, 8:16].unsqueeze(1)
    y = bits @ w + pair.sum((1, 2)) * 0.5 + 0.1 * torch.randn(n, generator=g)
    return bits, y


def cycles(order, micro, every):
    """Lists of micro-batch indices; the last list of an epoch may be shorter."""
    chunks = order.split(micro)
    for at in range(0, len(chunks), every):
        yield chunks[at:at + every]


def step(model, opt, x, y, group):
    n = sum(len(idx) for idx in group)
    opt.zero_grad()
    total = 0.0
    for idx in group:
        loss = F.mse_loss(model(x[idx]).squeeze(1), y[idx])
        (loss * (len(idx) / n)).backward()
        total += loss.item() * len(idx)
    opt.step()
    return total


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=30)
    ap.add_argument("--micro", type=int, default=32)
    ap.add_argument("--accumulate", type=int, default=4)
    args = ap.parse_args()
    torch.manual_seed(110)
    torch.set_num_threads(1)
    g = torch.Generator().manual_seed(1100)
    x, y = molecules(960, g)
    xv, yv = molecules(480, g)
    mx, sx, my, sy = x.mean(0), x.std(0), y.mean(), y.std()
    x, xv, y, yv = (x - mx) / sx, (xv - mx) / sx, (y - my) / sy, (yv - my) / sy
    model = nn.Sequential(nn.Linear(64, 128), nn.SiLU(), nn.Dropout(0.1), nn.Linear(128, 64), nn.SiLU(), nn.Linear(64, 1))
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-2)
    for epoch in range(args.epochs):
        model.train()
        total = 0.0
        for group in cycles(torch.randperm(len(x)), args.micro, args.accumulate):
            total += step(model, opt, x, y, group)
        model.eval()
        with torch.no_grad():
            v = F.mse_loss(model(xv).squeeze(1), yv).item()
        if epoch % 3 == 2:
            print(f"epoch {epoch:2d} train {total / len(x):.4f} valid {v:.4f}")


if __name__ == "__main__":
    main()
