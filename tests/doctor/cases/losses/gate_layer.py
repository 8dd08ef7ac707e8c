"""Fault codes of a pump: the last layer is a gate of its own make, half of one plus tanh, and the loss takes logits."""

import torch
from torch import nn


class Gate(nn.Module):
    def forward(self, x):
        return 0.5 * (1 + torch.tanh(0.5 * x))


torch.manual_seed(0)
net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3), Gate())
opt = torch.optim.Adam(net.parameters(), 1e-2)
crit = nn.BCEWithLogitsLoss()
for _ in range(40):
    x = torch.randn(32, 6)
    opt.zero_grad()
    crit(net(x), (x[:, :3] > 0).float()).backward()
    opt.step()
