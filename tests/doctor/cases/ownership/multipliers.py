"""A temperature in a group of its own, and multipliers that are raised by hand."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(4, 4)
temperature = nn.Parameter(torch.zeros(()))
optimizer = torch.optim.Adam([{"params": model.parameters()}, {"params": [temperature], "lr": 1e-2}], lr=1e-3)
multipliers = nn.Parameter(torch.ones(3))
for step in range(40):
    x = torch.randn(16, 4)
    excess = model.weight.norm(dim=1)[:3] - 1
    loss = nn.functional.cross_entropy(model(x) * temperature.exp(), x.argmax(1)) + (multipliers.exp() * excess).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        multipliers += 1e-2 * multipliers.grad
        multipliers.grad = None
