"""Regression where every sample also looks at the other samples of its batch."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


class BatchContext(nn.Module):
    def __init__(self, features, hidden):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(features, hidden), nn.GELU())
        self.query = nn.Linear(hidden, hidden)
        self.key = nn.Linear(hidden, hidden)
        self.head = nn.Linear(2 * hidden, 1)

    def forward(self, x):
        h = self.enc(x)
        scores = self.query(h) @ self.key(h).t() / h.shape[1] ** 0.5
        context = scores.softmax(dim=1) @ h
        return self.head(torch.cat([h, context], dim=1)).squeeze(1)


def run_epoch(model, loader, optimizer=None):
    model.train(optimizer is not None)
    total, count = 0.0, 0
    with torch.set_grad_enabled(optimizer is not None):
        for x, y in loader:
            loss = F.mse_loss(model(x), y)
            if optimizer is not None:
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            total += loss.item() * len(y)
            count += len(y)
    return total / count


if __name__ == "__main__":
    torch.manual_seed(7)
    x = torch.randn(300, 6)
    y = x[:, 0] * x[:, 1] + 0.1 * torch.randn(300)
    train = DataLoader(TensorDataset(x[:240], y[:240]), batch_size=24, shuffle=True)
    valid = DataLoader(TensorDataset(x[240:], y[240:]), batch_size=60)
    net = BatchContext(6, 16)
    opt = torch.optim.Adam(net.parameters(), lr=3e-3)
    for epoch in range(4):
        a = run_epoch(net, train, opt)
        b = run_epoch(net, valid)
        print(f"{epoch}: train {a:.4f} valid {b:.4f}")
