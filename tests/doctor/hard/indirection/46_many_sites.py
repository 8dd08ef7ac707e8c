# kind: behind indirection
# expect: nothing
# like: dead-parameter
# why: Each batch belongs to one hospital and uses only that hospital's head and adapter, so in any step most of the
#      optimizer's parameters have no gradient; over the epoch every one of them gets its turn.
import random

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
random.seed(0)
np.random.seed(0)
torch.manual_seed(0)

SITES = {}


def site(name, **spec):
    def deco(fn):
        SITES[name] = dict(target=fn, **spec)
        return fn
    return deco


@site("north", inputs=10, size=900)
def stay(z):
    return 1.2 * z[:, 0] - z[:, 1] * z[:, 2]


@site("harbour", inputs=14, size=700)
def cost(z):
    return np.abs(z[:, 0]) + 0.8 * z[:, 3]


@site("mill", inputs=7, size=500)
def risk(z):
    return np.tanh(2 * z[:, 1]) + 0.5 * z[:, 2] ** 2


def records(rng, mix, spec, n):
    z = rng.normal(size=(n, 4))
    x = z @ mix + 0.1 * rng.normal(size=(n, spec["inputs"]))
    y = spec["target"](z) + 0.1 * rng.normal(size=n)
    return x, y


def prepare(spec, seed):
    rng = np.random.default_rng(seed)
    mix = rng.normal(size=(4, spec["inputs"]))
    x, y = records(rng, mix, spec, spec["size"])
    cut = int(0.8 * len(x))
    x = (x - x[:cut].mean(0)) / x[:cut].std(0)
    y = (y - y[:cut].mean()) / y[:cut].std()
    x, y = torch.tensor(x, dtype=torch.float32), torch.tensor(y, dtype=torch.float32)
    return DataLoader(TensorDataset(x[:cut], y[:cut]), 20, shuffle=True), (x[cut:], y[cut:])


class Federated(nn.Module):
    def __init__(self, sites, width=40):
        super().__init__()
        self.adapters = nn.ModuleDict({k: nn.Linear(s["inputs"], width) for k, s in sites.items()})
        self.shared = nn.Sequential(nn.SiLU(), nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU())
        self.heads = nn.ModuleDict({k: nn.Linear(width, 1) for k in sites})

    def __getitem__(self, name):
        def call(x):
            return self.heads[name](self.shared(self.adapters[name](x))).squeeze(1)
        return call


def interleave(loaders):
    """All batches of all sites, in an order that mixes the sites anew every epoch."""
    tickets = [name for name, loader in loaders.items() for _ in range(len(loader))]
    random.shuffle(tickets)
    streams = {name: iter(loader) for name, loader in loaders.items()}
    for name in tickets:
        yield name, next(streams[name])


loaders, held = {}, {}
for seed, (name, spec) in enumerate(SITES.items(), start=70):
    loaders[name], held[name] = prepare(spec, seed)

model = Federated(SITES)
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
loss_fn = nn.MSELoss()

for epoch in range(8):
    model.train()
    sums = {name: [0.0, 0] for name in SITES}
    for name, (x, y) in interleave(loaders):
        optimizer.zero_grad()
        loss = loss_fn(model[name](x), y)
        loss.backward()
        optimizer.step()
        sums[name][0] += loss.item() * len(y)
        sums[name][1] += len(y)
    model.eval()
    line = [f"epoch {epoch}"]
    with torch.no_grad():
        for name, (x, y) in held.items():
            line.append(f"{name} {sums[name][0] / sums[name][1]:.3f}/{loss_fn(model[name](x), y).item():.3f}")
    print("  ".join(line))
