"""Evolution strategies: gradients are estimated, never computed."""

import torch
import torch.nn as nn

torch.manual_seed(0)
policy = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
for p in policy.parameters():
    p.requires_grad_(False)
optimizer = torch.optim.Adam(policy.parameters(), lr=0.02)
x = torch.randn(64, 3)
y = x.sum(1, keepdim=True)


def fitness():
    return -(policy(x) - y).pow(2).mean()


for generation in range(15):
    optimizer.zero_grad()
    for p in policy.parameters():
        p.grad = torch.zeros_like(p)
    for _ in range(4):
        noise = [torch.randn_like(p) for p in policy.parameters()]
        for sign in (1, -1):
            for p, n in zip(policy.parameters(), noise, strict=False):
                p.add_(n, alpha=0.05 * sign)
            score = fitness()
            for p, n in zip(policy.parameters(), noise, strict=False):
                p.add_(n, alpha=-0.05 * sign)
                p.grad.sub_(n, alpha=sign * score.item() / 0.4)
    optimizer.step()
    print(generation, fitness().item())
