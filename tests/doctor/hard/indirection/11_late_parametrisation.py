# kind: behind indirection
# expect: nothing
# like: stale-optimizer
# why: the parametrisations are registered after the optimizer was made, but a one-to-one parametrisation keeps the very
#      same Parameter object as parametrizations.weight.original, so the optimizer holds what the model trains.
"""Monotone dose-response network: weights are forced positive by a parametrisation."""
import argparse
import torch
from torch import nn
import torch.nn.functional as F
from torch.nn.utils import parametrize


class Positive(nn.Module):
    def forward(self, w):
        return F.softplus(w) / w.shape[1]


class Monotone(nn.Module):
    def __init__(self, h):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(1, h), nn.Tanh(), nn.Linear(h, h), nn.Tanh(), nn.Linear(h, 1))

    def forward(self, dose):
        return self.net(dose)


def constrain(model):
    for m in model.modules():
        if isinstance(m, nn.Linear):
            parametrize.register_parametrization(m, "weight", Positive())
    return model


def assays(n, g):
    dose = 4 * torch.rand(n, 1, generator=g) - 2
    response = 0.8 * torch.sigmoid(4 * (dose + 0.8)) + 0.6 * torch.sigmoid(6 * (dose - 1.0))
    return dose / 1.155, (response - 0.6) / 0.45 + 0.1 * torch.randn(n, 1, generator=g)


@torch.no_grad()
def check_monotone(model):
    model.eval()
    out = model(torch.linspace(-1.7, 1.7, 200)[:, None])
    return bool((out.diff(dim=0) >= 0).all())


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=20)
    ap.add_argument("--lr", type=float, default=3e-3)
    args = ap.parse_args()
    torch.manual_seed(2)
    torch.set_num_threads(1)
    g = torch.Generator().manual_seed(20)
    x, y = assays(2560, g)
    xv, yv = assays(512, g)
    model = Monotone(48)
    opt = torch.optim.Adam(model.parameters(), lr=args.lr)
    constrain(model)
    assert {id(p) for p in model.parameters()} == {id(p) for grp in opt.param_groups for p in grp["params"]}
    for epoch in range(args.epochs):
        model.train()
        total = 0.0
        for idx in torch.randperm(len(x)).split(64):
            loss = F.mse_loss(model(x[idx]), y[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(idx)
        model.eval()
        with torch.no_grad():
            v = F.mse_loss(model(xv), yv).item()
        print(f"epoch {epoch:2d} train {total / len(x):.4f} valid {v:.4f} monotone {check_monotone(model)}")


if __name__ == "__main__":
    main()
