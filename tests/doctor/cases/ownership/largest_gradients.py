"""Only the parameter with the largest gradient is updated in a step; what the others miss is kept and added the next time."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(1)
x = torch.randn(400, 6)
y = torch.sin(x[:, :2]).sum(1, keepdim=True)
model = nn.Sequential(nn.Linear(6, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
missed = [torch.zeros_like(p) for p in model.parameters()]

for step in range(150):
    rows = torch.randint(400, (32,))
    optimizer.zero_grad()
    F.mse_loss(model(x[rows]), y[rows]).backward()
    wanted = [p.grad + rest for p, rest in zip(model.parameters(), missed)]
    largest = max(range(len(wanted)), key=lambda i: float(wanted[i].abs().sum()))
    for i, p in enumerate(model.parameters()):
        if i == largest:
            p.grad.copy_(wanted[i])
            missed[i].zero_()
        else:
            missed[i].copy_(wanted[i])
            p.grad.zero_()
    optimizer.step()
