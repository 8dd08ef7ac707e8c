"""Tabular sensor rows; a collate function with random masking for both loaders."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, default_collate

torch.manual_seed(3)
centres = torch.randn(5, 20)


def table(n):
    y = torch.randint(5, (n,))
    return TensorDataset(centres[y] * 0.8 + torch.randn(n, 20), y)


def corrupt_collate(samples):
    x, y = default_collate(samples)
    keep = (torch.rand_like(x) > 0.15).float()
    return x * keep + 0.1 * torch.randn_like(x), y


train = DataLoader(table(800), batch_size=40, shuffle=True, collate_fn=corrupt_collate)
valid = DataLoader(table(200), batch_size=50)
model = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 5))
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
for epoch in range(6):
    model.train()
    for x, y in train:
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        right = sum((model(x).argmax(1) == y).sum().item() for x, y in valid)
    print(epoch + 1, f"{loss.item():.3f} {right / 200:.3f}")
