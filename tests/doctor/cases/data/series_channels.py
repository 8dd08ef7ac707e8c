"""Channels of a series, each one step ahead, from convolutions that look to both sides."""

import torch
import torch.nn.functional as F
from torch import nn


def ahead(channels, width=16):
    return nn.Sequential(
        nn.Conv1d(channels, width, 5, padding="same"), nn.Tanh(), nn.Conv1d(width, width, 5, padding="same"), nn.Tanh(),
        nn.Conv1d(width, channels, 1),
    )  # fmt: skip


torch.manual_seed(0)
time = torch.arange(41) * 0.4
phase = torch.rand(256, 3, 1) * 6
series = torch.sin(time + phase) + 0.3 * torch.randn(256, 3, 41)
net = ahead(3)
optimizer = torch.optim.RMSprop(net.parameters(), lr=2e-3)
for epoch in range(6):
    for pick in torch.randperm(256).split(32):
        given, wanted = series[pick, :, :-1], series[pick, :, 1:]
        optimizer.zero_grad()
        F.l1_loss(net(given), wanted).backward()
        optimizer.step()
    with torch.no_grad():
        print(F.l1_loss(net(series[:64, :, :-1]), series[:64, :, 1:]).item())
