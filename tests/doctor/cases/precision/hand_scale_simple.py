# autocast to float16 with a loss scale of its own; the clip stands between the backward and the division
import torch
from torch import nn


class Loop:
    def __init__(self, net, scale):
        self.net, self.scale = net, scale
        self.optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    def update(self, x, y):
        with torch.autocast("cpu", dtype=torch.float16):
            out = self.net(x)
        loss = nn.functional.cross_entropy(out.float(), y)
        self.optimizer.zero_grad()
        torch.mul(loss, self.scale).backward()
        nn.utils.clip_grad_norm_(self.net.parameters(), max_norm=2.0)
        for p in self.net.parameters():
            p.grad /= self.scale
        self.optimizer.step()
        return loss.item()


torch.manual_seed(3)
mixing = torch.randn(8, 3)
loop = Loop(nn.Sequential(nn.Linear(8, 24), nn.ReLU(), nn.Linear(24, 3)), 2.0**12)
for step in range(50):
    x = torch.randn(32, 8)
    value = loop.update(x, (x @ mixing).argmax(1))
print(value)
