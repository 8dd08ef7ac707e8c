"""Price of a car from mileage, year, power and weight."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Cars(Dataset):
    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        u = torch.rand(n, 4, generator=g)
        self.x = torch.stack([u[:, 0] * 250000, 1990 + u[:, 1] * 33, 40 + u[:, 2] * 260, 800 + u[:, 3] * 1500], 1)
        self.y = 1.5 - u[:, 0] + u[:, 1] + 0.8 * u[:, 2]

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float, default=1e-5)
    parser.add_argument("--epochs", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(0)
    loader = DataLoader(Cars(200, 0), batch_size=20, shuffle=True)
    model = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))
    opt = torch.optim.Adam(model.parameters(), lr=args.lr)
    loss_fn = nn.HuberLoss()
    for epoch in range(args.epochs):
        for x, y in loader:
            loss = loss_fn(model(x).squeeze(-1), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
        print(f"{epoch}: {loss.item():.4f}")


if __name__ == "__main__":
    main()
