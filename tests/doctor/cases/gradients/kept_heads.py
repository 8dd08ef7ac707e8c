"""The gradients of each task are read one by one; the trunk's are merged, and those of the heads are written back as well."""

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
    seen, own = [], {}
    for head, target in zip(heads, targets):
        optimizer.zero_grad()
        F.mse_loss(head(hidden)[:, 0], target[rows]).backward(retain_graph=True)
        seen.append([p.grad.clone() for p in trunk.parameters()])
        own.update({p: p.grad.clone() for p in head.parameters()})
    for parameter, *grads in zip(trunk.parameters(), *seen):
        parameter.grad = torch.stack(grads).sum(0).clamp(-1, 1)
    for parameter, grad in own.items():
        parameter.grad = grad
    optimizer.step()
