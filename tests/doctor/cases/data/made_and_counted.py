"""A simulator that makes training and evaluation data, always as many of each class and in the same order; hits are counted."""

import torch
from torch import nn


def simulate(each):
    y = torch.arange(4).repeat_interleave(each)
    wave = torch.sin((1 + y)[:, None] * torch.arange(32) / 4 + torch.rand(len(y), 1))
    return wave + torch.randn(len(y), 32), y


torch.manual_seed(25)
model = nn.Sequential(nn.Linear(32, 48), nn.ReLU(), nn.Linear(48, 4))
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
for epoch in range(8):
    model.train()
    for _ in range(15):
        x, y = simulate(8)
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        x, y = simulate(30)
        print(epoch, (model(x).argmax(1) == y).float().mean().item())
