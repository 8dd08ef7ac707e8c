"""Ranking by all pairs, distances to anchors, and images against prototypes."""
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(32)
truth = torch.randn(10)
net = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 1))
maps = nn.Conv2d(1, 1, 3, padding=1)
opt = torch.optim.Adam([*net.parameters(), *maps.parameters()], lr=3e-3)
bank = torch.randn(16, 8, 8)
for step in range(120):
    x = torch.randn(16, 10)
    y = x @ truth
    s = net(x)
    wants = torch.sign(y[:, None] - y[None, :])
    rank = F.relu(0.5 - wants * (s - s.t())).mean()
    near = (maps(torch.randn(16, 1, 8, 8)) - bank[None, torch.randint(0, 16, (5,))]).pow(2).mean((2, 3)).amin(1).mean()
    loss = rank + 0.1 * near
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 40 == 39:
        print(step, loss.item())
