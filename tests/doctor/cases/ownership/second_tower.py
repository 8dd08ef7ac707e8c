"""Two towers of plain tensors; the optimizer gets one."""

import torch
from torch.nn import functional as F

torch.manual_seed(3)


def tower(features, width):
    return {
        "w": (torch.randn(width, features) / features**0.5).requires_grad_(),
        "b": torch.zeros(width, requires_grad=True),
    }


def embed(p, x):
    return F.normalize(torch.tanh(F.linear(x, p["w"], p["b"])), dim=1)


towers = {"left": tower(12, 16), "right": tower(12, 16)}
optimizer = torch.optim.Adam(towers["left"].values(), lr=1e-2)
z = torch.randn(512, 12)
for step in range(60):
    pick = torch.randint(0, 512, (32,))
    left, right = z[pick], z[pick].roll(1, 1)
    loss = F.cross_entropy(10 * embed(towers["left"], left) @ embed(towers["right"], right).t(), torch.arange(32))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item())
