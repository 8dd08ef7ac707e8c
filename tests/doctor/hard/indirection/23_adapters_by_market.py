# kind: behind indirection
# expect: unregistered-module
# also: parameter-not-optimized
# why: the adapters per market are built into a plain dict by a helper that setattr's it, so they are not in
#      model.parameters(): they get gradients, are never updated and are missing in the state_dict.
"""Demand model with one adapter and head per market, built from a specification."""
import argparse
import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

SPEC = {"markets": ["north", "south", "coast", "inland"], "dim": 48, "features": 10, "rank": 8}


def adapter(dim, rank):
    return nn.Sequential(nn.Linear(dim, rank), nn.Tanh(), nn.Linear(rank, dim))



def per_market(**factories):
    """Class decorator: gives the instance one part per market for every named factory."""
    def deco(cls):
        init = cls.__init__

        def __init__(self, spec):
            init(self, spec)
            for name, make in factories.items():
                setattr(self, name, {m: make(spec["dim"], spec["rank"]) for m in spec["markets"]})
        cls.__init__ = __init__
        return cls
    return deco


@per_market(adapters=adapter)
class Demand(nn.Module):
    def __init__(self, spec):
        super().__init__()
        self.names = spec["markets"]
        self.trunk = nn.Sequential(nn.Linear(spec["features"], spec["dim"]), nn.ReLU(), nn.Linear(spec["dim"], spec["dim"]), nn.ReLU())
        self.head = nn.Linear(spec["dim"], 1)

    def forward(self, x, market):
        z = self.trunk(x)
        shifted = torch.stack([self.adapters[m](z) for m in self.names], 1)
        return self.head(z + shifted[torch.arange(len(x)), market]).squeeze(1)


def sales(n, g):
    x = torch.randn(n, 10, generator=g)
    m = torch.randint(0, 4, (n,), generator=g)
    slope = torch.tensor([1.0, -1.0, 0.5, -0.3])[m]
    y = slope * x[:, 0] + torch.sin(2 * x[:, 1]) + (m.float() - 1.5) * 0.6 + 0.1 * torch.randn(n, generator=g)
    return TensorDataset(x, m, y / 1.3)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=12)
    args = ap.parse_args()
    torch.manual_seed(27)
    torch.set_num_threads(1)
    g = torch.Generator().manual_seed(270)
    train, valid = DataLoader(sales(4096, g), 64, shuffle=True), sales(1024, g)
    model = Demand(SPEC)
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    for epoch in range(args.epochs):
        model.train()
        total = 0.0
        for x, m, y in train:
            opt.zero_grad()
            loss = F.mse_loss(model(x, m), y)
            loss.backward()
            opt.step()
            total += loss.item() * len(y)
        model.eval()
        with torch.no_grad():
            x, m, y = valid.tensors
            v = F.mse_loss(model(x, m), y).item()
        print(f"epoch {epoch:2d} train {total / 4096:.4f} valid {v:.4f}")


if __name__ == "__main__":
    main()
