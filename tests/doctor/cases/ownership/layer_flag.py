"""Two-part model whose first part is meant to be fixed."""

import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(13)
backbone = nn.Sequential(nn.Linear(15, 40), nn.ReLU(), nn.Linear(40, 20), nn.ReLU())
for layer in backbone:
    layer.require_grad = False
head = nn.Linear(20, 2)
model = nn.Sequential(backbone, head)
x = torch.randn(500, 15)
y = (x[:, 0] * x[:, 1] > 0).long()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for epoch in range(5):
    for rows in torch.randperm(500).split(25):
        loss = F.cross_entropy(model(x[rows]), y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch + 1, f"{loss.item():.3f}")
