"""Two losses by hand through one stepper; one of them subtracts (n,) from (n, 1)."""

import torch
from torch import nn

torch.manual_seed(0)
net = nn.ModuleDict({"level": nn.Linear(6, 2), "trend": nn.Linear(6, 1)})
opts = {k: torch.optim.SGD(m.parameters(), lr=0.05) for k, m in net.items()}


def advance(name, loss):
    opts[name].zero_grad()
    loss.backward()
    opts[name].step()


w = torch.randn(6, 3)
for i in range(150):
    x = torch.randn(32, 6)
    y = x @ w
    advance("level", (net["level"](x) - y[:, :2]).pow(2).mean())
    advance("trend", (net["trend"](x) - y[:, 2]).pow(2).mean())
