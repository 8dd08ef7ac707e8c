# kind: without a DataLoader
# expect: nothing
# like: not-shuffled
# why: there is no shuffling because there is no data set: every batch is drawn afresh and independently from a simulator,
#      so no order exists; the evaluation points are drawn once from a generator of their own.
"""Flow matching from a Gaussian to a ring of eight Gaussians, trained on an endless simulated stream."""
import argparse
import itertools
import math
import torch
from torch import nn
import torch.nn.functional as F


def ring(n, g):
    k = torch.randint(0, 8, (n,), generator=g)
    a = 2 * math.pi * k / 8
    x = torch.stack([a.cos(), a.sin()], 1) * 1.4 + 0.1 * torch.randn(n, 2, generator=g)
    return x


def stream(batch, seed):
    g = torch.Generator().manual_seed(seed)
    while True:
        x1, x0 = ring(batch, g), torch.randn(batch, 2, generator=g)
        t = torch.rand(batch, 1, generator=g)
        yield (1 - t) * x0 + t * x1, t, x1 - x0


class Velocity(nn.Module):
    def __init__(self, h):
        super().__init__()
        self.register_buffer("freq", torch.arange(1, 5) * math.pi)
        self.net = nn.Sequential(nn.Linear(2 + 8, h), nn.SiLU(), nn.Linear(h, h), nn.SiLU(), nn.Linear(h, h), nn.SiLU(), nn.Linear(h, 2))

    def forward(self, x, t):
        return self.net(torch.cat([x, (t * self.freq).sin(), (t * self.freq).cos()], 1))


@torch.no_grad()
def sample(model, n, steps, seed):
    model.eval()
    x = torch.randn(n, 2, generator=torch.Generator().manual_seed(seed))
    for i in range(steps):
        x = x + model(x, torch.full((n, 1), i / steps)) / steps
    return x


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=1200)
    ap.add_argument("--batch", type=int, default=256)
    args = ap.parse_args()
    torch.manual_seed(101)
    torch.set_num_threads(1)
    model = Velocity(96)
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    held = next(stream(2048, seed=7))
    run = 0.0
    for step, (x, t, v) in enumerate(itertools.islice(stream(args.batch, seed=1), args.steps), 1):
        model.train()
        opt.zero_grad()
        loss = F.mse_loss(model(x, t), v)
        loss.backward()
        opt.step()
        run += loss.item()
        if step % 150 == 0:
            model.eval()
            with torch.no_grad():
                e = F.mse_loss(model(held[0], held[1]), held[2]).item()
            radius = sample(model, 500, 20, 3).norm(dim=1)
            print(f"step {step} train {run / 150:.4f} held-out {e:.4f} radius {radius.mean():.3f} +- {radius.std():.3f}")
            run = 0.0


if __name__ == "__main__":
    main()
