"""Classify short gesture recordings with a convolution over time."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


class GestureNet(nn.Module):
    def __init__(self, sensors, steps, classes):
        super().__init__()
        self.steps = steps
        self.conv = nn.Conv1d(sensors, 16, kernel_size=3, padding=1)
        self.fc = nn.Linear(16 * steps, classes)

    def forward(self, x):
        h = F.relu(self.conv(x))
        h = h.permute(2, 0, 1)
        h = h.reshape(x.size(0), -1)
        return self.fc(h)


def make_data(n, sensors, steps, classes):
    y = torch.randint(0, classes, (n,))
    t = torch.linspace(0, 6.28, steps)
    base = torch.stack([torch.sin(t * (k + 1)) for k in range(classes)])
    x = base[y].unsqueeze(1).repeat(1, sensors, 1) + 0.3 * torch.randn(n, sensors, steps)
    return TensorDataset(x, y)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--lr", type=float, default=1e-3)
    args = parser.parse_args()
    torch.manual_seed(1)
    train = make_data(200, 4, 12, 3)
    test = make_data(60, 4, 12, 3)
    train_loader = DataLoader(train, batch_size=args.batch_size, shuffle=True)
    test_loader = DataLoader(test, batch_size=60)
    model = GestureNet(4, 12, 3)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    for epoch in range(args.epochs):
        model.train()
        for x, y in train_loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
        model.eval()
        right = 0
        with torch.no_grad():
            for x, y in test_loader:
                right += (model(x).argmax(1) == y).sum().item()
        print(f"epoch {epoch} accuracy {right / len(test):.3f}")


if __name__ == "__main__":
    main()
