# kind: behind indirection
# expect: softmax-wrong-dim
# also: batch-mixed
# why: The attention pool takes its normaliser from a table of functools.partial, where "softmax" was written for a
#      single bag (dim=0); with scores of shape (batch, tiles, 1) it normalises over the slides of the batch.
from functools import partial

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)

NORMALISERS = {
    "softmax": partial(torch.softmax, dim=0),
    "sharp": lambda s: torch.softmax(4 * s, dim=0),
    "uniform": lambda s: torch.full_like(s, 1 / s.shape[0]),
}
GATES = {"tanh": nn.Tanh, "relu": nn.ReLU}


class Slides(Dataset):
    """Bags of tile features; a slide is positive when some of its tiles are tumour tiles."""

    def __init__(self, n, tiles, dim, seed):
        g = torch.Generator().manual_seed(seed)
        sig = torch.randn(dim, generator=torch.Generator().manual_seed(1))
        self.y = torch.arange(n) % 2
        self.x = torch.randn(n, tiles, dim, generator=g)
        for i in range(n):
            if self.y[i]:
                k = int(torch.randint(3, 6, (1,), generator=g))
                self.x[i, torch.randperm(tiles, generator=g)[:k]] += 1.1 * sig
        self.y = self.y.float()

    def scale(self, mean, std):
        self.x = (self.x - mean) / std
        return self

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


class Pool(nn.Module):
    def __init__(self, dim, hidden, gate="tanh", normaliser="softmax"):
        super().__init__()
        self.score = nn.Sequential(nn.Linear(dim, hidden), GATES[gate](), nn.Linear(hidden, 1, bias=False))
        self.normalise = NORMALISERS[normaliser]

    def forward(self, tiles):
        weight = self.normalise(self.score(tiles))
        return (weight * tiles).sum(-2)


class MIL(nn.Module):
    def __init__(self, dim, width=32, **pool):
        super().__init__()
        self.embed = nn.Sequential(nn.Linear(dim, width), nn.ReLU(), nn.Linear(width, width))
        self.pool = Pool(width, 16, **pool)
        self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 1))

    def forward(self, tiles):
        return self.head(self.pool(self.embed(tiles))).squeeze(-1)


class Meter:
    def __init__(self):
        self.total = self.hits = self.n = 0

    def add(self, logit, y, loss):
        self.total += loss.item() * len(y)
        self.hits += ((logit > 0).float() == y).sum().item()
        self.n += len(y)

    def __str__(self):
        return f"{self.total / self.n:.4f} ({self.hits / self.n:.3f})"


def sweep(model, loader, step=None):
    meter = Meter()
    model.train(step is not None)
    with torch.set_grad_enabled(step is not None):
        for x, y in loader:
            logit = model(x)
            loss = nn.functional.binary_cross_entropy_with_logits(logit, y)
            if step is not None:
                step(loss)
            meter.add(logit, y, loss)
    return meter


def stepper(opt):
    def step(loss):
        opt.zero_grad()
        loss.backward()
        opt.step()
    return step


def main():
    torch.manual_seed(19)
    train = Slides(800, 24, 16, 2)
    mean, std = train.x.mean((0, 1)), train.x.std((0, 1))
    train.scale(mean, std)
    valid = Slides(200, 24, 16, 3).scale(mean, std)
    model = MIL(16, gate="tanh", normaliser="softmax")
    opt = torch.optim.RAdam(model.parameters(), lr=2e-3, weight_decay=1e-4)
    tl = DataLoader(train, 20, shuffle=True)
    vl = DataLoader(valid, 20)
    for epoch in range(9):
        print(f"epoch {epoch} train {sweep(model, tl, stepper(opt))} valid {sweep(model, vl)}")


if __name__ == "__main__":
    main()
