# kind: numbers
# expect: frozen-parameter-moves
# why: after the warm phase the encoder gets requires_grad=False, but zero_grad(set_to_none=False) leaves zeros in its
#      .grad; AdamW goes on with its moments and its decay, and the "frozen" weights shrink.
"""Pump curves: train everything, then freeze the encoder and refine the head with the same optimizer."""
import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def pumps(n, seed):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 10, generator=g)
    flow = torch.sin(x[:, 0] + x[:, 1]) + 0.3 * x[:, 2] * x[:, 3]
    head = torch.cos(x[:, 4]) - 0.5 + 0.4 * x[:, 5]
    y = torch.stack([flow, head], 1) + 0.05 * torch.randn(n, 2, generator=g)
    return TensorDataset(x, y)


class PumpModel(nn.Module):
    def __init__(self, width=80):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(10, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU())
        self.head = nn.Sequential(nn.Linear(width, 40), nn.SiLU(), nn.Linear(40, 2))

    def forward(self, x):
        return self.head(self.encoder(x))


def run_epoch(model, loader, optimizer):
    model.train()
    total = 0.0
    for x, y in loader:
        optimizer.zero_grad(set_to_none=False)
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        total += loss.item()
    return total / len(loader)


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    total = n = 0
    for x, y in loader:
        total += nn.functional.mse_loss(model(x), y).item() * len(y)
        n += len(y)
    return total / n


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--warm", type=int, default=7)
    ap.add_argument("--refine", type=int, default=6)
    ap.add_argument("--decay", type=float, default=0.05)
    args = ap.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(23)
    train = DataLoader(pumps(3200, 1), batch_size=64, shuffle=True)
    valid = DataLoader(pumps(800, 2), batch_size=200)
    model = PumpModel()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=args.decay)
    for epoch in range(args.warm):
        print(f"warm   {epoch}  train {run_epoch(model, train, optimizer):.4f}  valid {evaluate(model, valid):.4f}")

    for p in model.encoder.parameters():
        p.requires_grad_(False)
    print("encoder frozen")
    for epoch in range(args.refine):
        print(f"refine {epoch}  train {run_epoch(model, train, optimizer):.4f}  valid {evaluate(model, valid):.4f}")


if __name__ == "__main__":
    main()
