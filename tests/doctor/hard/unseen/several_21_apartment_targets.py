# kind: several losses and optimizers
# expect: dead-parameter
# why: the learnt task weights enter the loss through .item(), so log_var never gets a gradient: its optimizer steps
#      over nothing and the weights of the tasks stay as they were set.
"""Price, energy class and days-to-let of flats, weighted by learnt uncertainty."""
import argparse
import math

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split


def flats(n, seed=77):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 14, generator=g)
    price = x[:, 0] + 0.5 * x[:, 1] * x[:, 2] + 0.1 * torch.randn(n, generator=g)
    energy = torch.bucketize(x[:, 3] - x[:, 4] + 0.3 * torch.randn(n, generator=g), torch.tensor([-1.0, 0.0, 1.0]))
    days = 2.0 * torch.tanh(x[:, 5] - x[:, 0]) + 0.8 * torch.randn(n, generator=g)
    return TensorDataset(x, price, energy, days)


class FlatNet(nn.Module):
    def __init__(self, width=80):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(14, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU())
        self.price, self.energy, self.days = nn.Linear(width, 1), nn.Linear(width, 4), nn.Linear(width, 1)

    def forward(self, x):
        h = self.body(x)
        return self.price(h).squeeze(1), self.energy(h), self.days(h).squeeze(1)


class UncertaintyWeights(nn.Module):
    """Kendall & Gal: sum of exp(-s) * loss + s."""

    def __init__(self, start):
        super().__init__()
        self.log_var = nn.ParameterList([nn.Parameter(torch.tensor(s)) for s in start])

    def forward(self, losses):
        total = 0.0
        for loss, s in zip(losses, self.log_var):
            s = s.item()
            total = total + math.exp(-s) * loss + 0.5 * s
        return total


def losses_of(model, batch):
    x, price, energy, days = batch
    p, e, d = model(x)
    return [nn.functional.mse_loss(p, price), nn.functional.cross_entropy(e, energy),
            nn.functional.mse_loss(d, days)]


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=12)
    args = ap.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(38)
    train_set, valid_set = random_split(flats(3840), [3200, 640])
    train = DataLoader(train_set, batch_size=64, shuffle=True)
    valid = DataLoader(valid_set, batch_size=160)
    model, weigh = FlatNet(), UncertaintyWeights([0.1, -0.1, 0.2])
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=1e-3)
    weight_opt = torch.optim.Adam(weigh.parameters(), lr=5e-3)
    for epoch in range(args.epochs):
        model.train()
        total = 0.0
        for batch in train:
            loss = weigh(losses_of(model, batch))
            opt.zero_grad()
            weight_opt.zero_grad()
            loss.backward()
            opt.step()
            weight_opt.step()
            total += loss.item()
        model.eval()
        with torch.no_grad():
            val = sum(torch.stack(losses_of(model, b)) * len(b[0]) for b in valid) / len(valid_set)
        print(f"epoch {epoch:2d} loss {total / len(train):.4f} valid {[round(v, 3) for v in val.tolist()]} "
              f"weights {[round(math.exp(-s.item()), 3) for s in weigh.log_var]}")


if __name__ == "__main__":
    main()
