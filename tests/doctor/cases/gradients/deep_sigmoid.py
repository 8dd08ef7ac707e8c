"""A deep network for tabular data."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class DeepNet(nn.Module):
    def __init__(self, features, width, depth, classes):
        super().__init__()
        self.first = nn.Linear(features, width)
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.last = nn.Linear(width, classes)

    def forward(self, x):
        x = torch.sigmoid(self.first(x))
        for layer in self.layers:
            x = torch.sigmoid(layer(x))
        return self.last(x)


def main():
    torch.manual_seed(0)
    x = torch.randn(256, 8)
    y = (x[:, 0] * x[:, 1] > 0).long()
    loader = DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True)
    model = DeepNet(8, 16, 12, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    criterion = nn.CrossEntropyLoss()
    for epoch in range(5):
        total = 0.0
        for xb, yb in loader:
            optimizer.zero_grad()
            loss = criterion(model(xb), yb)
            loss.backward()
            optimizer.step()
            total += loss.item()
        print(f"epoch {epoch}: {total / len(loader):.4f}")


if __name__ == "__main__":
    main()
