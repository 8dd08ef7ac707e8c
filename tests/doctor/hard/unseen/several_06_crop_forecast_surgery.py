# kind: several losses and optimizers
# expect: nothing
# like: gradients-discarded
# why: each task's gradients are copied before they are cleared, projected against each other (PCGrad), and put back
#      into .grad before the one step, so nothing is lost.
"""Yield, disease and water demand from field measurements, with gradient surgery."""
import argparse

import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits as bce
from torch.nn.functional import mse_loss
from torch.utils.data import DataLoader, TensorDataset


def fields(n, seed):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 16, generator=g)
    harvest = torch.tanh(x[:, 0] + x[:, 1] * x[:, 2]) + 0.1 * torch.randn(n, generator=g)
    disease = ((x[:, 0] - x[:, 3] + 0.3 * torch.randn(n, generator=g)) > 0).float()
    water = -0.8 * x[:, 0] + 0.6 * x[:, 4].abs() + 0.1 * torch.randn(n, generator=g)
    return TensorDataset(x, harvest, disease, water)


class FieldNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.shared = nn.Sequential(nn.Linear(16, 80), nn.GELU(), nn.Linear(80, 80), nn.GELU())
        self.harvest = nn.Linear(80, 1)
        self.disease = nn.Linear(80, 1)
        self.water = nn.Linear(80, 1)

    def forward(self, x):
        h = self.shared(x)
        return [head(h).squeeze(1) for head in (self.harvest, self.disease, self.water)]


def task_losses(net, batch):
    x, *ys = batch
    outs = net(x)
    return [fn(o, y) for fn, o, y in zip((mse_loss, bce, mse_loss), outs, ys)]


class Surgeon:
    """Projects conflicting task gradients before handing them to the optimizer."""

    def __init__(self, optimizer):
        self.optimizer = optimizer
        self.params = [p for group in optimizer.param_groups for p in group["params"]]

    def _flat(self):
        return torch.cat([(torch.zeros_like(p) if p.grad is None else p.grad).flatten() for p in self.params])

    def step(self, losses):
        grads = []
        for i, loss in enumerate(losses):
            self.optimizer.zero_grad()
            loss.backward(retain_graph=i + 1 < len(losses))
            grads.append(self._flat())
        merged = torch.zeros_like(grads[0])
        for i, g in enumerate(grads):
            g = g.clone()
            for j in torch.randperm(len(grads)).tolist():
                dot = g @ grads[j]
                if j != i and dot < 0:
                    g -= dot / grads[j].square().sum().clamp_min(1e-12) * grads[j]
            merged += g
        offset = 0
        for p in self.params:
            p.grad = merged[offset:offset + p.numel()].view_as(p).clone()
            offset += p.numel()
        self.optimizer.step()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=12)
    args = ap.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(4)
    train = DataLoader(fields(3200, 10), batch_size=64, shuffle=True)
    valid = DataLoader(fields(800, 11), batch_size=200)
    net = FieldNet()
    surgeon = Surgeon(torch.optim.Adam(net.parameters(), lr=1e-3))
    for epoch in range(args.epochs):
        net.train()
        seen = torch.zeros(3)
        for batch in train:
            losses = task_losses(net, batch)
            surgeon.step(losses)
            seen += torch.stack([l.detach() for l in losses])
        net.eval()
        with torch.no_grad():
            val = sum(torch.stack(task_losses(net, b)) * len(b[0]) for b in valid) / 800
        print(f"epoch {epoch:2d} train {[round(v, 3) for v in (seen / len(train)).tolist()]} "
              f"valid {[round(v, 3) for v in val.tolist()]}")


if __name__ == "__main__":
    main()
