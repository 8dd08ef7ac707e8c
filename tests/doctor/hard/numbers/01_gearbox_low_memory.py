# kind: numbers
# expect: update-below-precision
# why: weights are bfloat16 and the home-made momentum SGD adds steps far below their spacing (8 bits of mantissa), so
#      most additions round back to the old weight and training stalls early.
"""Remaining life of gearboxes; weights in bfloat16 to fit the edge device."""
import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class LeanSGD(torch.optim.Optimizer):
    """Momentum SGD with as few temporaries as possible."""

    def __init__(self, params, lr=1e-3, momentum=0.9):
        super().__init__(params, dict(lr=lr, momentum=momentum))

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if "velocity" not in state:
                    state["velocity"] = torch.zeros_like(p)
                v = state["velocity"].mul_(group["momentum"]).add_(p.grad)
                p.add_(v, alpha=-group["lr"])


def gearboxes(n, seed):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 24, generator=g)
    w = torch.randn(24, generator=torch.Generator().manual_seed(0)) / 24 ** 0.5
    y = torch.tanh(x @ w) + 0.5 * x[:, 0] * x[:, 1] + 0.1 * torch.randn(n, generator=g)
    return TensorDataset(x, y)


class LifeNet(nn.Module):
    def __init__(self, width=96):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(24, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(),
                                    nn.Linear(width, 1))

    def forward(self, x):
        return self.layers(x).squeeze(-1)


def evaluate(model, loader):
    model.eval()
    total = n = 0
    with torch.no_grad():
        for x, y in loader:
            total += (model(x.bfloat16()).float() - y).square().sum().item()
            n += len(y)
    return total / n


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=10)
    ap.add_argument("--lr", type=float, default=1e-3)
    args = ap.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    train = DataLoader(gearboxes(4096, 1), batch_size=64, shuffle=True)
    valid = DataLoader(gearboxes(1024, 2), batch_size=256)
    model = LifeNet().to(torch.bfloat16)
    optimizer = LeanSGD(model.parameters(), lr=args.lr)
    for epoch in range(args.epochs):
        model.train()
        total = 0.0
        for x, y in train:
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(x.bfloat16()).float(), y)
            loss.backward()
            optimizer.step()
            total += loss.item()
        print(f"epoch {epoch:2d}  train mse {total / len(train):.4f}  valid mse {evaluate(model, valid):.4f}")


if __name__ == "__main__":
    main()
