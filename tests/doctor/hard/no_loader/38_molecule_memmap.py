# kind: without a DataLoader
# expect: train-valid-overlap
# why: Each side makes its own permutation from a generator that has moved on in between, so the two sides are not
#      complements: most validation rows are training rows too.
import os
import tempfile

import numpy as np
import torch
from torch import nn

torch.set_num_threads(1)
N, D = 3000, 48


def write_store(folder, rng):
    """Descriptors and solubilities as two flat float32 files."""
    x = np.lib.format.open_memmap(os.path.join(folder, "desc.npy"), mode="w+", dtype="float32", shape=(N, D))
    y = np.lib.format.open_memmap(os.path.join(folder, "sol.npy"), mode="w+", dtype="float32", shape=(N,))
    mix = rng.normal(size=(10, D)) / 3
    hidden = rng.normal(size=(N, 10))
    x[:] = hidden @ mix + 0.3 * rng.normal(size=(N, D))
    x[:] *= rng.uniform(0.2, 30, size=D)
    y[:] = hidden[:, 0] * hidden[:, 1] + np.sin(2 * hidden[:, 2]) + hidden[:, 3] + 0.3 * rng.normal(size=N)
    x.flush()
    y.flush()


def cut(n, share, rng):
    order = rng.permutation(n)
    edge = int(n * share)
    return order[:edge], order[edge:]


class Side:
    """One side of the store, opened read-only; rows are read only when a batch asks for them."""

    def __init__(self, folder, side, rng, share=0.8):
        self.x = np.load(os.path.join(folder, "desc.npy"), mmap_mode="r")
        self.y = np.load(os.path.join(folder, "sol.npy"), mmap_mode="r")
        self.rows = cut(len(self.y), share, rng)[side]
        self.mu = np.zeros(self.x.shape[1], "float32")
        self.sd = np.ones(self.x.shape[1], "float32")

    def fit(self):
        block = self.x[np.sort(self.rows)]
        self.mu, self.sd = block.mean(0), block.std(0)
        return self

    def like(self, other):
        self.mu, self.sd = other.mu, other.sd
        return self

    def walk(self, size, rng=None):
        rows = self.rows if rng is None else rng.permutation(self.rows)
        for lo in range(0, len(rows), size):
            take = np.sort(rows[lo:lo + size])
            x = (self.x[take] - self.mu) / self.sd
            yield torch.from_numpy(x), torch.from_numpy(self.y[take])


def mlp(sizes, p):
    parts = []
    for a, b in zip(sizes, sizes[1:]):
        parts += [nn.Linear(a, b), nn.GELU(), nn.Dropout(p)]
    return nn.Sequential(*parts, nn.Linear(sizes[-1], 1), nn.Flatten(0))


def evaluate(model, side, loss_fn):
    model.eval()
    total, n = 0.0, 0
    with torch.no_grad():
        for x, y in side.walk(256):
            total += loss_fn(model(x), y).item() * len(y)
            n += len(y)
    return total / n


def main():
    torch.manual_seed(404)
    rng = np.random.default_rng(404)
    with tempfile.TemporaryDirectory() as folder:
        write_store(folder, rng)
        train = Side(folder, 0, rng).fit()
        valid = Side(folder, 1, rng).like(train)

        model = mlp([D, 96, 64], 0.1)
        loss_fn = nn.HuberLoss()
        opt = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.01)
        for epoch in range(10):
            model.train()
            total = 0.0
            for x, y in train.walk(80, rng):
                opt.zero_grad(set_to_none=True)
                loss = loss_fn(model(x), y)
                loss.backward()
                opt.step()
                total += loss.item() * len(y)
            print(f"epoch {epoch}: train {total / len(train.rows):.4f}, valid {evaluate(model, valid, loss_fn):.4f}")


main()
