# kind: numbers
# expect: loss-broadcast
# why: the network's location is (N, 1) and the log times and event flags are (N,), so the hand-written
#   censored likelihood is taken over an (N, N) table and the network learns only the marginal.
from dataclasses import dataclass
import math

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


@dataclass
class Config:
    n: int = 3200
    n_train: int = 2560
    features: int = 12
    width: int = 48
    batch: int = 64
    epochs: int = 12
    lr: float = 2e-3
    seed: int = 11


def make_cohort(cfg):
    rng = np.random.default_rng(cfg.seed)
    x = rng.normal(loc=3.0, scale=2.0, size=(cfg.n, cfg.features))
    c = (x - 3.0) / 2.0
    risk = 0.8 * c[:, 0] - 0.6 * c[:, 1] + 0.5 * c[:, 2] * c[:, 3] + 0.4 * np.sin(2 * c[:, 4])
    log_t = 0.5 + risk + 0.35 * rng.normal(size=cfg.n)
    log_c = rng.normal(loc=1.6, scale=0.8, size=cfg.n)
    event = (log_t <= log_c).astype(np.float32)
    observed = np.minimum(log_t, log_c).astype(np.float32)
    return x.astype(np.float32), observed, event


class AFTNet(nn.Module):
    """Log-normal accelerated failure time model with a global scale."""

    def __init__(self, features, width):
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(features, width), nn.SiLU(), nn.Dropout(0.05),
            nn.Linear(width, width), nn.SiLU(),
        )
        self.location = nn.Linear(width, 1)
        self.log_scale = nn.Parameter(torch.zeros(()))

    def forward(self, x):
        return self.location(self.body(x)), self.log_scale


def censored_lognormal_nll(location, log_scale, log_time, event):
    z = (log_time - location) * torch.exp(-log_scale)
    log_density = -0.5 * z.square() - log_scale - 0.5 * math.log(2 * math.pi)
    log_survival = torch.special.log_ndtr(-z)
    ll = event * log_density + (1.0 - event) * log_survival
    return -ll.mean()


@torch.no_grad()
def concordance(model, x, log_time, event):
    model.eval()
    location, _ = model(x)
    pred = location[:, 0]
    comparable = (log_time[:, None] < log_time[None, :]) & (event[:, None] > 0)
    ordered = (pred[:, None] < pred[None, :]) & comparable
    return (ordered.sum() / comparable.sum()).item()


def main():
    cfg = Config()
    torch.manual_seed(cfg.seed)
    x, log_time, event = make_cohort(cfg)
    mean, std = x[: cfg.n_train].mean(0), x[: cfg.n_train].std(0)
    x = (x - mean) / std
    x, log_time, event = map(torch.from_numpy, (x, log_time, event))
    train = TensorDataset(x[: cfg.n_train], log_time[: cfg.n_train], event[: cfg.n_train])
    held_out = (x[cfg.n_train:], log_time[cfg.n_train:], event[cfg.n_train:])
    loader = DataLoader(train, batch_size=cfg.batch, shuffle=True)

    model = AFTNet(cfg.features, cfg.width)
    optimizer = torch.optim.Adam(model.parameters(), lr=cfg.lr)
    for epoch in range(cfg.epochs):
        model.train()
        total = 0.0
        for xb, tb, eb in loader:
            location, log_scale = model(xb)
            loss = censored_lognormal_nll(location, log_scale, tb, eb)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(xb)
        c_index = concordance(model, *held_out)
        print(f"epoch {epoch:2d}  nll {total / cfg.n_train:.4f}  c-index {c_index:.3f}")


if __name__ == "__main__":
    main()
