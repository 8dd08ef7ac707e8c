"""Train, and look at the input gradients of a few samples every epoch."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def saliency(model, x):
    model.eval()
    x = x.clone().requires_grad_(True)
    model(x).max(dim=1).values.sum().backward()
    model.zero_grad()
    model.train()
    return x.grad.abs().mean(0)


def main():
    torch.manual_seed(0)
    x = torch.randn(160, 5)
    y = (x[:, 0] > x[:, 3]).long()
    loader = DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True)
    model = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(4):
        model.train()
        for xb, yb in loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(xb), yb)
            loss.backward()
            optimizer.step()
        print(epoch, loss.item(), saliency(model, x[:8]).tolist())


main()
