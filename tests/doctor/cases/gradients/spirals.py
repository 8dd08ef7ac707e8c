"""Classify points of three spirals with a small MLP."""

import math

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def make_spirals(n_per_class=80, classes=3):
    points, labels = [], []
    for c in range(classes):
        t = torch.linspace(0.2, 1.0, n_per_class)
        angle = t * 4.0 + c * 2 * math.pi / classes
        noise = torch.randn(n_per_class) * 0.1
        points.append(torch.stack([t * torch.cos(angle + noise), t * torch.sin(angle + noise)], dim=1))
        labels.append(torch.full((n_per_class,), c))
    return torch.cat(points), torch.cat(labels)


def main():
    torch.manual_seed(0)
    X, y = make_spirals()
    loader = DataLoader(TensorDataset(X, y), batch_size=24, shuffle=True)
    model = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 3))
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)

    for epoch in range(4):
        running_loss = 0.0
        for inputs, labels in loader:
            optimizer.zero_grad()
            outputs = model(inputs)
            loss = criterion(outputs, labels)
            loss.backward()
            optimizer.step()
            running_loss += loss
        print(f"epoch {epoch + 1}: loss {running_loss / len(loader):.3f}")


if __name__ == "__main__":
    main()
