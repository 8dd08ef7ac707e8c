"""Pseudo-labels from weak views, training on strong ones: two wrappers of one network, on purpose."""

import torch
from torch import nn
from torch.nn import functional as F


class Augmented(nn.Module):
    def __init__(self, net, strength) -> None:
        super().__init__()
        self.net, self.strength = net, strength

    def forward(self, x):
        return self.net(x + self.strength * torch.randn_like(x))


torch.manual_seed(0)
net = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 4))
weak, strong = Augmented(net, 0.05), Augmented(net, 0.5)
optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
x = torch.randn(512, 8)
y = x[:, :4].argmax(1)
for step in range(80):
    i, j = torch.randint(0, 512, (32,)), torch.randint(0, 512, (32,))
    with torch.no_grad():
        sure, label = weak(x[j]).softmax(1).max(1)
    loss = F.cross_entropy(strong(x[i]), y[i]) + ((sure > 0.7) * F.cross_entropy(strong(x[j]), label, reduction="none")).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
