"""Leaf measurements: an index sampler for a part of the table."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Sampler, TensorDataset

torch.manual_seed(4)


class PartSampler(Sampler):
    def __init__(self, indices):
        self.indices = sorted(indices.tolist())

    def __iter__(self):
        return iter(self.indices)

    def __len__(self):
        return len(self.indices)


centres = torch.randn(8, 14)
y = torch.arange(8).repeat_interleave(120)
x = 0.7 * centres[y] + torch.randn(960, 14)
order = torch.randperm(960)
data = TensorDataset(x, y)
train = DataLoader(data, batch_size=40, sampler=PartSampler(order[:760]))
valid = DataLoader(data, batch_size=100, sampler=PartSampler(order[760:]))
model = nn.Sequential(nn.Linear(14, 64), nn.Tanh(), nn.Linear(64, 8))
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for epoch in range(6):
    model.train()
    for xb, yb in train:
        loss = nn.functional.cross_entropy(model(xb), yb)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        right = sum((model(xb).argmax(1) == yb).sum().item() for xb, yb in valid)
    print(epoch + 1, f"{loss.item():.3f} {right / 200:.3f}")
