"""A network in half precision."""

import torch
import torch.nn.functional as F
from torch import nn


class HalfNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(10, 24)
        self.b = nn.Linear(24, 3)

    def forward(self, x):
        return self.b(torch.relu(self.a(x)))


def run(steps=48):
    torch.manual_seed(0)
    net = HalfNet().half()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    mixing = torch.randn(10, 3)
    net.train()
    for step in range(steps):
        x = torch.randn(16, 10)
        y = (x @ mixing).argmax(1)
        loss = F.cross_entropy(net(x.half()).float(), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 16 == 0:
            print(step, loss.item())


if __name__ == "__main__":
    run()
