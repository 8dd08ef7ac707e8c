# kind: several losses
# expect: norm-before-first-forward
# why: initial_scales() evaluates the untouched model in eval mode; the hook-based spectral_norm of the price head has made no power iteration yet, its sigma is that of random vectors, the head's output is far too large, and the resulting loss weight all but switches the price task off.
"""House listings: price regression (Lipschitz head), category, days on market; losses scaled by their initial value."""
import torch
from torch import nn
import torch.nn.functional as F
from torch.nn.utils import spectral_norm

torch.set_num_threads(1)
torch.manual_seed(27)


class Listings(nn.Module):
    def __init__(self, d=16, width=64):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(d, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU())
        self.price = nn.Sequential(spectral_norm(nn.Linear(width, width)), nn.SiLU(),
                                   spectral_norm(nn.Linear(width, width)), nn.SiLU(),
                                   nn.Linear(width, 1))
        self.category = nn.Linear(width, 5)
        self.days = nn.Linear(width, 1)

    def forward(self, x):
        h = self.trunk(x)
        return {"price": self.price(h).squeeze(1), "category": self.category(h), "days": self.days(h).squeeze(1)}


LOSSES = {
    "price": F.mse_loss,
    "category": F.cross_entropy,
    "days": lambda p, t: F.poisson_nll_loss(p, t, full=True),
}


def market(n, seed):
    g = torch.Generator().manual_seed(seed)
    f = torch.Generator().manual_seed(1234)
    x = torch.randn(n, 16, generator=g)
    w = torch.randn(16, 6, generator=f) / 4
    z = torch.tanh(x @ w)
    price = 1.5 * z[:, 0] + z[:, 1] * z[:, 2] + 0.1 * torch.randn(n, generator=g)
    category = (z @ torch.randn(6, 5, generator=f) + 0.2 * torch.randn(n, 5, generator=g)).argmax(1)
    days = torch.poisson(torch.exp(0.8 + z[:, 3] + 0.5 * z[:, 4]), generator=g)
    return x, {"price": price, "category": category, "days": days}


def batches(data, size, gen):
    x, targets = data
    for idx in torch.randperm(len(x), generator=gen).split(size):
        yield x[idx], {k: t[idx] for k, t in targets.items()}


@torch.no_grad()
def measure(model, data):
    model.eval()
    out = model(data[0])
    values = {k: fn(out[k], data[1][k]).item() for k, fn in LOSSES.items()}
    model.train()
    return values


def initial_scales(model, data):
    """Bring all tasks to the same magnitude: weight = 1 / loss of the untrained model."""
    start = measure(model, data)
    inverse = {k: 1.0 / max(v, 1e-6) for k, v in start.items()}
    norm = len(inverse) / sum(inverse.values())
    return {k: v * norm for k, v in inverse.items()}


def main():
    train, valid = market(3000, 1), market(1000, 2)
    model = Listings()
    scales = initial_scales(model, valid)
    opt = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9)
    gen = torch.Generator().manual_seed(0)
    for epoch in range(8):
        for x, targets in batches(train, 60, gen):
            out = model(x)
            total = sum(scales[k] * LOSSES[k](out[k], targets[k]) for k in LOSSES)
            opt.zero_grad()
            total.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 2.0)
            opt.step()
        print(f"epoch {epoch} " + "  ".join(f"{k} {v:.4f}" for k, v in measure(model, valid).items()))


main()
