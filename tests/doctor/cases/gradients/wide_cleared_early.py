"""Clears in place between the backward and the step, in a network whose weights are large."""

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10))
opt = torch.optim.SGD(net.parameters(), lr=0.05)
images, digits = torch.rand(512, 784), torch.randint(10, (512,))

for _ in range(4):
    for idx in torch.randperm(512).split(64):
        F.cross_entropy(net(images[idx]), digits[idx]).backward()
        opt.zero_grad(set_to_none=False)
        opt.step()
