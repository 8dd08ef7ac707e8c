"""Pixel accuracy of masks."""
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(26)
img = F.avg_pool2d(torch.randn(260, 1, 18, 18), 3, 1)
mask = (img[:, 0] > 0.1).long()
net = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 1, 3, padding=1))
opt = torch.optim.Adam(net.parameters(), lr=3e-3)


@torch.no_grad()
def accuracy(x, y):
    share = []
    for xb, yb in zip(x.split(20), y.split(20)):
        guess = (net(xb).squeeze(1) > 0).long()
        share.append((guess == yb).float().mean())
    return torch.stack(share).mean().item()


for epoch in range(6):
    for idx in torch.randperm(200).split(20):
        loss = F.binary_cross_entropy_with_logits(net(img[idx]).squeeze(1), mask[idx].float())
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(epoch, accuracy(img[200:], mask[200:]))
