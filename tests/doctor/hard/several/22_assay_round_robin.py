# kind: several losses and optimizers
# expect: nothing
# like: dead-parameter
# why: each batch belongs to one assay, so in any single step the other three heads have no gradient; over the epoch
#      every head gets its batches and learns.
"""Four assays with separate compound libraries, one shared trunk, batches in random order of assays."""
import argparse
import random

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

ASSAYS = {"solubility": "reg", "toxicity": "cls", "binding": "reg", "stability": "cls"}


def library(index, n, seed):
    g = torch.Generator().manual_seed(seed)
    rule = torch.Generator().manual_seed(900 + index)
    w1, w2 = torch.randn(32, generator=rule) / 5, torch.randn(32, generator=rule) / 5
    x = torch.randn(n, 32, generator=g)
    score = x @ w1 + torch.tanh(2 * x @ w2) + 0.1 * torch.randn(n, generator=g)
    return x, score


def make_loaders(n_train, n_valid, batch):
    train, valid = {}, {}
    for i, (name, kind) in enumerate(ASSAYS.items()):
        for loaders, n, seed, shuffle in ((train, n_train, 10 + i, True), (valid, n_valid, 50 + i, False)):
            x, score = library(i, n, seed)
            y = score if kind == "reg" else (score > 0).float()
            loaders[name] = DataLoader(TensorDataset(x, y), batch_size=batch, shuffle=shuffle)
    return train, valid


class AssayNet(nn.Module):
    def __init__(self, width=96):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(32, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.head = nn.ModuleDict({a: nn.Sequential(nn.Linear(width, 24), nn.ReLU(), nn.Linear(24, 1))
                                   for a in ASSAYS})

    def forward(self, x, assay):
        return self.head[assay](self.trunk(x)).squeeze(-1)


def criterion(assay, out, y):
    if ASSAYS[assay] == "reg":
        return nn.functional.mse_loss(out, y)
    return nn.functional.binary_cross_entropy_with_logits(out, y)


def interleave(loaders, rng):
    iterators = {a: iter(l) for a, l in loaders.items()}
    order = [a for a, l in loaders.items() for _ in range(len(l))]
    rng.shuffle(order)
    for assay in order:
        yield assay, next(iterators[assay])


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=10)
    args = ap.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(44)
    rng = random.Random(44)
    train, valid = make_loaders(1280, 384, 64)
    model = AssayNet()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(args.epochs):
        model.train()
        total = {a: 0.0 for a in ASSAYS}
        for assay, (x, y) in interleave(train, rng):
            optimizer.zero_grad()
            loss = criterion(assay, model(x, assay), y)
            loss.backward()
            optimizer.step()
            total[assay] += loss.item()
        model.eval()
        report = []
        with torch.no_grad():
            for assay, loader in valid.items():
                v = sum(criterion(assay, model(x, assay), y).item() * len(y) for x, y in loader) / 384
                report.append(f"{assay} {total[assay] / len(train[assay]):.3f}/{v:.3f}")
        print(f"epoch {epoch:2d}  " + "  ".join(report))


if __name__ == "__main__":
    main()
