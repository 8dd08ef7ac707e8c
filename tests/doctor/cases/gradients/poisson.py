"""Counts of visitors as a Poisson rate."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
features = torch.randn(160, 4)
visitors = torch.poisson(torch.exp(0.3 * features[:, 0] + 0.5))
loader = DataLoader(TensorDataset(features, visitors), batch_size=16, shuffle=True)


class RateNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, x):
        return self.net(x).squeeze(1)


def nll(rate, count):
    return (rate - count * torch.log(rate)).mean()


model = RateNet()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for epoch in range(4):
    total = 0.0
    for x, y in loader:
        optimizer.zero_grad()
        loss = nll(model(x), y)
        loss.backward()
        optimizer.step()
        total += loss.item()
    print("epoch", epoch, total / len(loader))
