# kind: without a DataLoader
# expect: loss-broadcast
# why: mean and log-variance come out as (N, 1) from chunk(2, dim=-1) while the target is (N,); the hand-written Gaussian likelihood broadcasts to (N, N), so the net learns only the global mean and variance.
"""Heteroscedastic regression with a hand-written Gaussian negative log-likelihood, batches drawn by index."""
import math

import numpy as np
import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(14)
rng = np.random.default_rng(14)


def simulate(n):
    x = rng.uniform(-2, 2, size=(n, 5))
    mean = np.sin(2 * x[:, 0]) + 0.8 * x[:, 1] * x[:, 2]
    std = 0.1 + 0.2 * np.abs(x[:, 3])
    y = mean + std * rng.normal(size=n)
    return torch.tensor(x, dtype=torch.float32), torch.tensor(y, dtype=torch.float32)


class MeanVariance(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(5, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh())
        self.head = nn.Linear(width, 2)

    def forward(self, x):
        mu, log_var = self.head(self.body(x)).chunk(2, dim=-1)
        return mu, log_var.clamp(-6.0, 4.0)


def gaussian_nll(mu, log_var, y):
    sq = (y - mu).square()
    return 0.5 * (log_var + sq * torch.exp(-log_var) + math.log(2 * math.pi)).mean()


@torch.no_grad()
def report(model, x, y):
    mu, log_var = model(x)
    mu, std = mu.flatten(), torch.exp(0.5 * log_var).flatten()
    rmse = (mu - y).square().mean().sqrt().item()
    covered = ((mu - y).abs() < 1.645 * std).float().mean().item()
    return rmse, covered


def main():
    x, y = simulate(3000)
    xv, yv = simulate(800)
    center, spread = y.mean(), y.std()
    y, yv = (y - center) / spread, (yv - center) / spread

    model = MeanVariance()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    warmup = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: min(1.0, (s + 1) / 50))
    running = None
    for step in range(1, 801):
        idx = torch.randint(len(x), (64,))
        mu, log_var = model(x[idx])
        loss = gaussian_nll(mu, log_var, y[idx])
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 10.0)
        optimizer.step()
        warmup.step()
        running = loss.item() if running is None else 0.98 * running + 0.02 * loss.item()
        if step % 200 == 0:
            rmse, covered = report(model, xv, yv)
            print(f"step {step} nll {running:.3f}  valid rmse {rmse:.3f}  90% coverage {covered:.2f}")


if __name__ == "__main__":
    main()
