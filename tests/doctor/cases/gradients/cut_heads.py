"""The gradients of each task are read one by one and the trunk's are written back: those of all heads but the last are lost."""

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
x = torch.randn(400, 8)
targets = [x[:, 0], x[:, 1] - x[:, 2], x[:, 3].abs()]
trunk = nn.Linear(8, 16)
heads = nn.ModuleList(nn.Linear(16, 1) for _ in targets)
optimizer = torch.optim.Adam([*trunk.parameters(), *heads.parameters()], lr=3e-3)

for _ in range(60):
    rows = torch.randint(400, (32,))
    hidden = torch.relu(trunk(x[rows]))
    seen = []
    for head, target in zip(heads, targets):
        optimizer.zero_grad()
        F.mse_loss(head(hidden)[:, 0], target[rows]).backward(retain_graph=True)
        seen.append([p.grad.clone() for p in trunk.parameters()])
    for parameter, *grads in zip(trunk.parameters(), *seen):
        parameter.grad = torch.stack(grads).sum(0).clamp(-1, 1)
    optimizer.step()
