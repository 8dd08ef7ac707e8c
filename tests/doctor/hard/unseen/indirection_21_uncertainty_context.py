# kind: behind indirection
# expect: nothing
# like: dropout-in-eval
# why: dropout is on only inside a context manager that samples for Monte-Carlo uncertainty (20 draws per input, wanted
#      random); the validation error itself is measured before with everything in eval mode, and the modes are put back.
"""Regression with predictive uncertainty from Monte-Carlo dropout."""
import argparse
from contextlib import contextmanager
import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


@contextmanager
def sampling(model):
    """Inside, dropout layers draw masks, everything else stays as in evaluation; afterwards all is as before."""
    before = {m: m.training for m in model.modules()}
    model.eval()
    for m in model.modules():
        if isinstance(m, nn.Dropout):
            m.train()
    try:
        with torch.no_grad():
            yield lambda x, n: torch.stack([model(x) for _ in range(n)])
    finally:
        for m, flag in before.items():
            m.training = flag


def rig(n, g):
    """Load on a bearing from eight gauges."""
    x = torch.randn(n, 8, generator=g)
    y = torch.sin(2 * x[:, 0]) + 0.6 * x[:, 1] * x[:, 2] + 0.3 * x[:, 3] + 0.1 * torch.randn(n, generator=g)
    return x, y[:, None]


def network(d, h, rate):
    return nn.Sequential(nn.Linear(d, h), nn.BatchNorm1d(h), nn.ReLU(), nn.Dropout(rate), nn.Linear(h, h), nn.ReLU(), nn.Dropout(rate),
                         nn.Linear(h, 1))


@torch.no_grad()
def validate(model, x, y):
    model.eval()
    return F.mse_loss(model(x), y).item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=12)
    ap.add_argument("--rate", type=float, default=0.1)
    ap.add_argument("--draws", type=int, default=20)
    args = ap.parse_args()
    torch.manual_seed(23)
    torch.set_num_threads(1)
    g = torch.Generator().manual_seed(230)
    x, y = rig(4800, g)
    xv, yv = rig(800, g)
    train = DataLoader(TensorDataset(x, y), batch_size=60, shuffle=True)
    model = network(8, 128, args.rate)
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    for epoch in range(args.epochs):
        model.train()
        total = 0.0
        for xb, yb in train:
            opt.zero_grad()
            loss = F.mse_loss(model(xb), yb)
            loss.backward()
            opt.step()
            total += loss.item() * len(xb)
        error = validate(model, xv, yv)
        with sampling(model) as draw:
            samples = draw(xv, args.draws)
        spread = samples.std(0)
        far = (samples.mean(0) - yv).abs()
        corr = torch.corrcoef(torch.stack([spread.flatten(), far.flatten()]))[0, 1].item()
        print(f"epoch {epoch:2d} train {total / len(x):.4f} valid {error:.4f} mean spread {spread.mean():.3f} spread/error corr {corr:.3f}")


if __name__ == "__main__":
    main()
