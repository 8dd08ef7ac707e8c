"""Learn a smooth map with momentum."""

import torch
import torch.nn.functional as F
from torch import nn


class MapNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(8, 32)
        self.outer = nn.Linear(32, 2)

    def forward(self, x):
        return self.outer(torch.tanh(self.inner(x)))


def train(model, optimizer, steps):
    mixing = torch.randn(8, 2)
    seen = []
    for step in range(steps):
        x = torch.randn(40, 8)
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), x @ mixing)
        loss.backward()
        optimizer.step()
        seen.append(loss.item())
        if step % 15 == 0:
            print(step, f"{seen[-1]:.4g}")
    return seen


if __name__ == "__main__":
    torch.manual_seed(6)
    net = MapNet()
    train(net, torch.optim.SGD(net.parameters(), lr=0.4, momentum=0.9), steps=60)
