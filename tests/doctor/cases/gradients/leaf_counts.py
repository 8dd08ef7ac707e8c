"""Regression on plant measurements with a large effective batch."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def make_loader(batch_size):
    g = torch.Generator().manual_seed(4)
    x = torch.randn(192, 5, generator=g)
    y = (x[:, :1] * x[:, 1:2]) + 0.3 * x[:, 2:3]
    return DataLoader(TensorDataset(x, y), batch_size=batch_size, shuffle=True, drop_last=True)


def train(model, loader, optimizer, criterion, accumulate, epochs):
    for epoch in range(epochs):
        model.train()
        epoch_loss = 0.0
        optimizer.zero_grad()
        for step, (x, y) in enumerate(loader, start=1):
            loss = criterion(model(x), y)
            loss.backward()
            epoch_loss += loss.item()
            if step % accumulate == 0:
                optimizer.step()
                optimizer.zero_grad()
        print(f"[{epoch}] {epoch_loss / len(loader):.4f}")


if __name__ == "__main__":
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(5, 32), nn.SiLU(), nn.Linear(32, 1))
    train(net, make_loader(8), torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9), nn.MSELoss(), accumulate=3, epochs=5)
