"""Dice loss on small masks."""
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(8)
img = F.avg_pool2d(torch.randn(200, 1, 20, 20), 5, 1)
mask = (img[:, 0] > 0.05).float()
net = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 1, 3, padding=1))


def dice_loss(logits, target, eps=1.0):
    p = torch.sigmoid(logits)
    inter = (p * target).sum()
    return 1 - (2 * inter + eps) / (p.sum() + target.sum() + eps)


opt = torch.optim.Adam(net.parameters(), lr=3e-3)
for epoch in range(8):
    for idx in torch.randperm(160).split(16):
        loss = dice_loss(net(img[idx]).squeeze(1), mask[idx])
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(epoch, loss.item())
