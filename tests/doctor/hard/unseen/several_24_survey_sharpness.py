# kind: several losses and optimizers
# expect: nothing
# like: gradients-discarded
# why: SAM runs two backwards per step: the first gradients are used for the climb and then cleared, the second are
#      used by AdamW at the restored weights; both are done inside the optimizer class.
"""Sharpness-aware minimisation on survey answers with noisy labels."""
import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class SAM(torch.optim.Optimizer):
    def __init__(self, params, base, rho=0.05, **kwargs):
        super().__init__(params, dict(rho=rho, **kwargs))
        self.base = base(self.param_groups, **kwargs)
        self.param_groups = self.base.param_groups

    def _norm(self):
        return torch.stack([p.grad.norm() for g in self.param_groups for p in g["params"] if p.grad is not None]).norm()

    @torch.no_grad()
    def climb(self):
        scale = self.param_groups[0]["rho"] / (self._norm() + 1e-12)
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    self.state[p]["origin"] = p.detach().clone()
                    p.add_(p.grad * scale)
        self.zero_grad()

    @torch.no_grad()
    def descend(self):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    p.copy_(self.state[p]["origin"])
        self.base.step()
        self.zero_grad()

    def step(self, closure):
        loss = closure()
        loss.backward()
        self.climb()
        closure().backward()
        self.descend()
        return loss.detach()


def survey(n, seed, flip):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 18, generator=g)
    y = ((x[:, 0] * x[:, 1] + x[:, 2] - 0.5 * x[:, 3]) > 0).long()
    flipped = torch.rand(n, generator=g) < flip
    return TensorDataset(x, torch.where(flipped, 1 - y, y))


@torch.no_grad()
def accuracy(model, loader):
    model.eval()
    hits = n = 0
    for x, y in loader:
        hits += (model(x).argmax(1) == y).sum().item()
        n += len(y)
    model.train()
    return hits / n


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=12)
    ap.add_argument("--rho", type=float, default=0.05)
    args = ap.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(71)
    train = DataLoader(survey(3072, 1, flip=0.1), batch_size=64, shuffle=True)
    valid = DataLoader(survey(1024, 2, flip=0.0), batch_size=256)
    model = nn.Sequential(nn.Linear(18, 64), nn.LayerNorm(64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(),
                          nn.Linear(64, 2))
    optimizer = SAM(model.parameters(), torch.optim.AdamW, rho=args.rho, lr=1e-3, weight_decay=1e-2)
    criterion = nn.CrossEntropyLoss()
    for epoch in range(args.epochs):
        model.train()
        total = 0.0
        for x, y in train:
            total += optimizer.step(lambda: criterion(model(x), y)).item()
        print(f"epoch {epoch:2d} loss {total / len(train):.4f} clean accuracy {accuracy(model, valid):.3f}")


if __name__ == "__main__":
    main()
