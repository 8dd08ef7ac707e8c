# the second phase has an optimizer and a scheduler of its own, and calls the scheduler first
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 3))
mixing = torch.randn(8, 3)


def fit(optimizer, before_epoch, after_epoch, epochs):
    for _ in range(epochs):
        before_epoch()
        for _ in range(10):
            x = torch.randn(32, 8)
            loss = nn.functional.cross_entropy(net(x), (x @ mixing).argmax(1))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        after_epoch()


first = torch.optim.AdamW(net.parameters(), lr=1e-3)
cosine = torch.optim.lr_scheduler.CosineAnnealingLR(first, 6)
fit(first, lambda: None, lambda: cosine.step(), 6)
second = torch.optim.SGD(net.parameters(), lr=0.1)
fall = torch.optim.lr_scheduler.ExponentialLR(second, 0.7)
fit(second, lambda: fall.step(), lambda: None, 6)
