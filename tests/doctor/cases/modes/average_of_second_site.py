"""A network learns at one site, then at another; an average of the second training is evaluated once, with statistics of the first."""

from copy import deepcopy

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
mixing = torch.randn(8, 3)


def site(rows, scale, shift):
    x = torch.randn(rows, 8)
    return x * scale + shift, (x @ mixing).argmax(1)


def train(net, data, steps, follow=None):
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    net.train()
    for _ in range(steps):
        rows = torch.randint(len(data[0]), (32,))
        optimizer.zero_grad()
        F.cross_entropy(net(data[0][rows]), data[1][rows]).backward()
        optimizer.step()
        if follow is not None:
            follow()


net = nn.Sequential(nn.Linear(8, 24), nn.BatchNorm1d(24), nn.ReLU(), nn.Linear(24, 3))
train(net, site(800, 1.0, 0.0), 230)

average = deepcopy(net).eval()
pairs = list(zip(average.parameters(), net.parameters(), strict=True))


@torch.no_grad()
def follow():
    for mine, new in pairs:
        mine.mul_(0.95).add_(0.05 * new)


train(net, site(800, 0.5, 2.0), 120, follow)
x, y = site(400, 0.5, 2.0)
average.eval()
with torch.no_grad():
    print((average(x).argmax(1) == y).float().mean().item())
