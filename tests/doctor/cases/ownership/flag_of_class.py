"""A layer with a flag of its own, an attribute of the class: whether its gate passes gradients on."""

import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(13)


class Gate(nn.Module):
    require_grad = True

    def __init__(self, width):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(width))

    def forward(self, x):
        gate = torch.sigmoid(x)
        return self.scale * x * (gate if self.require_grad else gate.detach())


model = nn.Sequential(nn.Linear(15, 40), Gate(40), nn.Linear(40, 2))
model[1].require_grad = False
x = torch.randn(500, 15)
y = (x[:, 0] + x[:, 1] > 0).long()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for epoch in range(5):
    for rows in torch.randperm(500).split(25):
        loss = F.cross_entropy(model(x[rows]), y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch + 1, f"{loss.item():.3f}")
