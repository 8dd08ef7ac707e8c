"""Segment stripes in small images with an overlap loss."""

import numpy as np
import torch
from torch import nn


class Segmenter(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, 6, 3, padding=1), nn.ReLU(), nn.Conv2d(6, 1, 1))

    def forward(self, x):
        return torch.sigmoid(self.body(x))


class DiceLoss(nn.Module):
    def forward(self, prediction, target):
        p = prediction.detach().cpu().numpy()
        t = target.cpu().numpy()
        score = 2 * np.sum(p * t) / (np.sum(p) + np.sum(t) + 1e-6)
        return torch.tensor(1.0 - score, dtype=torch.float32).requires_grad_()


def stripes(batch):
    mask = torch.zeros(batch, 1, 8, 8)
    rows = torch.randint(0, 7, (batch,))
    for i, r in enumerate(rows.tolist()):
        mask[i, 0, r : r + 2] = 1.0
    return mask + 0.3 * torch.randn_like(mask), mask


def train(steps=30):
    torch.manual_seed(1)
    model = Segmenter()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    loss_fn = DiceLoss()
    model.train()
    for step in range(steps):
        image, mask = stripes(8)
        loss = loss_fn(model(image), mask)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 0:
            print(step, loss.item())


train()
