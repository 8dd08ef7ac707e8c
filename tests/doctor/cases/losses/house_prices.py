import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Houses(Dataset):
    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        self.x = torch.rand(n, 8, generator=g)
        self.price = 3 * self.x[:, 0] - 2 * self.x[:, 1] + self.x[:, 2] * self.x[:, 3]

    def __len__(self):
        return len(self.x)

    def __getitem__(self, index):
        return self.x[index], self.price[index]


class Regressor(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(8, width), nn.ReLU(), nn.Linear(width, 1))

    def forward(self, x):
        return self.net(x)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=3)
    ap.add_argument("--width", type=int, default=32)
    args = ap.parse_args()
    torch.manual_seed(0)
    loader = DataLoader(Houses(480, 1), batch_size=32, shuffle=True)
    model = Regressor(args.width)
    criterion = nn.MSELoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for epoch in range(args.epochs):
        for x, price in loader:
            prediction = model(x)
            loss = criterion(prediction, price)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: {loss.item():.4f}")


if __name__ == "__main__":
    main()
