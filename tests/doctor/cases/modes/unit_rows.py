"""Embeddings of length 1, each by its own norm."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
centres = torch.randn(6, 12)
y = torch.randint(6, (600,))
x = centres[y] + 0.7 * torch.randn(600, 12)
train = DataLoader(TensorDataset(x[:480], y[:480]), 30, shuffle=True)
valid = DataLoader(TensorDataset(x[480:], y[480:]), 40)


class Matcher(nn.Module):
    def __init__(self):
        super().__init__()
        self.tower = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 16))
        self.classes = nn.Parameter(torch.randn(6, 16))

    def forward(self, a):
        return 8 * F.normalize(self.tower(a), dim=1) @ F.normalize(self.classes, dim=1).T


model = Matcher()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
for epoch in range(4):
    model.train()
    for a, b in train:
        optimizer.zero_grad()
        F.cross_entropy(model(a), b).backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        print(sum((model(a).argmax(1) == b).sum().item() for a, b in valid) / 120)
