# kind: without a DataLoader
# expect: nothing
# like: ragged-mean
# why: The last batch of a pass and of the validation is small, but every batch mean is weighted by its size before the
#      mean is taken. The target column is spread over the three quantiles on purpose (pinball loss).
import numpy as np
import torch
from torch import nn

torch.set_num_threads(1)
QUANTILES = torch.tensor([0.1, 0.5, 0.9])


def market(n, rng):
    area = rng.lognormal(4.3, 0.4, n)
    year = rng.integers(1900, 2024, n)
    floor = rng.integers(0, 12, n)
    dist = rng.gamma(2.0, 3.0, n)
    rooms = np.clip((area / 25 + rng.normal(0, 0.7, n)).round(), 1, 8)
    price = area * (3.2 + 0.01 * (year - 1900) - 0.11 * dist + 0.05 * floor)
    price = price * np.exp(rng.normal(0, 0.05 + 0.015 * dist, n))
    return np.stack([np.log(area), year, floor, dist, rooms], 1), np.log(np.clip(price, 10, None))


def pinball(pred, target):
    """pred (B, 3), target (B, 1)."""
    diff = target - pred
    return torch.maximum(QUANTILES * diff, (QUANTILES - 1) * diff).mean()


def make_model(width=48):
    class Fan(nn.Module):
        """Predicts the lowest quantile and non-negative distances to the next ones."""

        def __init__(self):
            super().__init__()
            self.body = nn.Sequential(nn.Linear(5, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh())
            self.low = nn.Linear(width, 1)
            self.gaps = nn.Linear(width, 2)

        def forward(self, x):
            h = self.body(x)
            low = self.low(h)
            return torch.cat([low, low + nn.functional.softplus(self.gaps(h)).cumsum(1)], 1)
    return Fan()


def make_loop(model, opt):
    def one_pass(x, y, size, gen=None):
        """A training pass if there is a generator to shuffle with, else a validation pass."""
        learn = gen is not None
        model.train(learn)
        order = torch.randperm(len(x), generator=gen) if learn else torch.arange(len(x))
        total = 0.0
        with torch.set_grad_enabled(learn):
            for pick in order.split(size):
                loss = pinball(model(x[pick]), y[pick])
                if learn:
                    opt.zero_grad()
                    loss.backward()
                    opt.step()
                total += loss.item() * len(pick)
        return total / len(x)
    return one_pass


def coverage(model, x, y):
    model.eval()
    with torch.no_grad():
        p = model(x)
        return ((y >= p[:, :1]) & (y <= p[:, 2:])).float().mean().item()


def main():
    torch.manual_seed(15)
    rng = np.random.default_rng(15)
    gen = torch.Generator().manual_seed(15)
    feats, logp = market(2890, rng)
    order = rng.permutation(len(feats))
    tr, va = order[:2345], order[2345:]
    fm, fs = feats[tr].mean(0), feats[tr].std(0)
    pm, ps = logp[tr].mean(), logp[tr].std()
    x = torch.tensor((feats - fm) / fs, dtype=torch.float32)
    y = torch.tensor((logp - pm) / ps, dtype=torch.float32)[:, None]
    tr, va = torch.from_numpy(tr), torch.from_numpy(va)

    model = make_model()
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    one_pass = make_loop(model, opt)
    for k in range(10):
        t = one_pass(x[tr], y[tr], 64, gen)
        v = one_pass(x[va], y[va], 128)
        print(f"pass {k:2d}  train {t:.4f}  valid {v:.4f}  inside 10-90%: {coverage(model, x[va], y[va]):.3f}")


main()
