# kind: numbers
# expect: loss-broadcast
# why: the home-made log-cosh subtracts a target of shape (batch,) from predictions of shape (batch, 1); the difference
#      is (batch, batch) and the model learns the mean duration for everybody.
"""Taxi ride durations with a home-made robust loss."""
import argparse
import math

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Rides(Dataset):
    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        self.zone_from = torch.randint(0, 30, (n,), generator=g)
        self.zone_to = torch.randint(0, 30, (n,), generator=g)
        self.numbers = torch.randn(n, 5, generator=g)
        place = torch.randn(30, 2, generator=torch.Generator().manual_seed(606))
        distance = (place[self.zone_from] - place[self.zone_to]).norm(dim=1)
        rush = torch.sigmoid(2 * self.numbers[:, 0])
        raw = distance * (1 + rush) + 0.2 * torch.randn(n, generator=g)
        self.minutes = (raw - 2.6) / 1.6

    def __len__(self):
        return len(self.minutes)

    def __getitem__(self, i):
        return self.zone_from[i], self.zone_to[i], self.numbers[i], self.minutes[i]


class LogCosh(nn.Module):
    def forward(self, prediction, target):
        d = prediction - target
        return (d + nn.functional.softplus(-2 * d) - math.log(2)).mean()


class RideModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.pickup = nn.Embedding(30, 12)
        self.dropoff = nn.Embedding(30, 12)
        self.net = nn.Sequential(nn.Linear(29, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, a, b, numbers):
        return self.net(torch.cat([self.pickup(a), self.dropoff(b), numbers], dim=1))


@torch.no_grad()
def mean_error(model, loader):
    model.eval()
    total = n = 0
    for a, b, numbers, minutes in loader:
        total += (model(a, b, numbers).squeeze(1) - minutes).abs().sum().item()
        n += len(minutes)
    return total / n


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=8)
    args = ap.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(92)
    train = DataLoader(Rides(3072, 1), batch_size=64, shuffle=True)
    valid = DataLoader(Rides(768, 2), batch_size=256)
    model = RideModel()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=1e-3)
    criterion = LogCosh()
    for epoch in range(args.epochs):
        model.train()
        total = 0.0
        for a, b, numbers, minutes in train:
            loss = criterion(model(a, b, numbers), minutes)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        print(f"epoch {epoch} loss {total / len(train):.4f} valid mean error {mean_error(model, valid):.4f}")


if __name__ == "__main__":
    main()
