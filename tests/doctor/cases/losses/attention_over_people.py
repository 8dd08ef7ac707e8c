"""Attention pooling over time, by einsum."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Pooled(nn.Module):
    def __init__(self, features=5, dim=16, classes=3):
        super().__init__()
        self.embed = nn.Sequential(nn.Linear(features, dim), nn.GELU())
        self.score = nn.Linear(dim, 1)
        self.out = nn.Linear(dim, classes)

    def forward(self, x):
        h = self.embed(x)
        weights = torch.softmax(self.score(h).squeeze(-1), dim=0)
        return self.out(torch.einsum("bt,btd->bd", weights, h))


torch.manual_seed(15)
x = torch.randn(480, 12, 5)
y = x[..., :3].amax(1).argmax(1)
loader = DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True)
model = Pooled()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for epoch in range(5):
    for bx, by in loader:
        loss = nn.functional.cross_entropy(model(bx), by)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
