"""Denoise with a feature loss from a fixed network kept out of the saved weights."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class FeatureLoss:
    def __init__(self):
        self.net = nn.Sequential(nn.Conv2d(1, 6, 3, padding=1), nn.ReLU(), nn.Conv2d(6, 6, 3, padding=1)).eval()
        for p in self.net.parameters():
            p.requires_grad_(False)

    def __call__(self, a, b):
        return F.mse_loss(self.net(a), self.net(b))


class Denoiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 1, 3, padding=1))
        self.helpers = [FeatureLoss()]

    def forward(self, x):
        return x + self.body(x)

    def loss(self, noisy, clean):
        out = self(noisy)
        return F.l1_loss(out, clean) + 0.1 * self.helpers[0](out, clean)


torch.manual_seed(0)
clean = torch.rand(160, 1, 8, 8)
model = Denoiser()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for epoch in range(4):
    for part in torch.randperm(160).split(16):
        target = clean[part]
        optimizer.zero_grad()
        loss = model.loss(target + 0.1 * torch.randn_like(target), target)
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
