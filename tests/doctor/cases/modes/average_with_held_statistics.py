"""The second training holds the statistics of BatchNorm; the average of the weights has the same ones, by right."""

from copy import deepcopy

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
mixing = torch.randn(8, 3)


def draw(rows):
    x = torch.randn(rows, 8)
    return x, (x @ mixing).argmax(1)


def train(net, data, steps, follow=None):
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    for _ in range(steps):
        rows = torch.randint(len(data[0]), (32,))
        optimizer.zero_grad()
        F.cross_entropy(net(data[0][rows]), data[1][rows]).backward()
        optimizer.step()
        if follow is not None:
            follow()


net = nn.Sequential(nn.Linear(8, 24), nn.BatchNorm1d(24), nn.ReLU(), nn.Linear(24, 3))
data = draw(800)
train(net.train(), data, 60)

average = deepcopy(net).eval().requires_grad_(False)
net[1].eval()


@torch.no_grad()
def follow():
    for mine, new in zip(average.parameters(), net.parameters(), strict=True):
        mine.lerp_(new, 0.05)


train(net, data, 60, follow)
x, y = draw(400)
with torch.no_grad():
    print((average(x).argmax(1) == y).float().mean().item())
