# kind: without a DataLoader
# expect: nothing
# like: loss-broadcast
# why: predictions (batch, 5) and targets (batch, 1) have different shapes and are broadcast on purpose: each of the five
#      quantiles is compared with the one target of its own row (pinball loss).
"""Delivery-time quantiles with a pinball loss; orders arrive from a simulated stream."""
import argparse
import torch
from torch import nn

QUANTILES = torch.tensor([0.05, 0.25, 0.5, 0.75, 0.95])


def orders(n, g):
    x = torch.randn(n, 9, generator=g)
    centre = 0.8 * x[:, 0] + 0.5 * x[:, 1].abs() + 0.4 * x[:, 2] * x[:, 3] - 0.4
    spread = 0.2 + 0.4 * torch.sigmoid(2 * x[:, 4])
    return x, (centre + spread * torch.randn(n, generator=g)).unsqueeze(1)


class QuantileNet(nn.Module):
    """The median-free head: a first quantile and positive gaps, so that quantiles never cross."""

    def __init__(self, h):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(9, h), nn.GELU(), nn.Linear(h, h), nn.GELU())
        self.low, self.gaps = nn.Linear(h, 1), nn.Linear(h, len(QUANTILES) - 1)

    def forward(self, x):
        z = self.body(x)
        return torch.cat([self.low(z), nn.functional.softplus(self.gaps(z))], 1).cumsum(1)


def pinball(pred, target):
    diff = target - pred
    return torch.maximum(QUANTILES * diff, (QUANTILES - 1) * diff).mean()


@torch.no_grad()
def coverage(model, x, y):
    model.eval()
    q = model(x)
    return pinball(q, y).item(), (y <= q).float().mean(0).tolist()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=1000)
    ap.add_argument("--batch", type=int, default=128)
    args = ap.parse_args()
    torch.manual_seed(120)
    torch.set_num_threads(1)
    g = torch.Generator().manual_seed(1200)
    xv, yv = orders(3000, torch.Generator().manual_seed(4))
    model = QuantileNet(96)
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=args.steps, eta_min=2e-4)
    run = 0.0
    for step in range(1, args.steps + 1):
        model.train()
        x, y = orders(args.batch, g)
        loss = pinball(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
        run += loss.item()
        if step % 100 == 0:
            v, cover = coverage(model, xv, yv)
            print(f"step {step} train {run / 100:.4f} held-out {v:.4f} coverage " + " ".join(f"{c:.2f}" for c in cover))
            run = 0.0


if __name__ == "__main__":
    main()
