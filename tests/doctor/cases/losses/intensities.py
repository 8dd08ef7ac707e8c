"""Which of three events comes in a second, as a point process: the logarithm of its intensity, and the integral of all of them."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 3))
optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
for _ in range(40):
    x = torch.randn(32, 5)
    rate = F.softplus(net(x)) + 1e-6
    optimizer.zero_grad()
    (F.nll_loss(rate.log(), x[:, :3].argmax(1)) + rate.sum(1).mean()).backward()
    optimizer.step()
