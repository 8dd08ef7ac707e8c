"""A wide network without any clearing: what is large must not hide the mistake."""

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10))
opt = torch.optim.SGD(net.parameters(), lr=0.01)
images, digits = torch.rand(512, 784), torch.randint(10, (512,))

for _ in range(4):
    for idx in torch.randperm(512).split(64):
        loss = F.cross_entropy(net(images[idx]), digits[idx])
        loss.backward()
        opt.step()
