"""Optimise an image so that its features match; the network itself is left alone."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
features = nn.Sequential(nn.Conv2d(1, 6, 3), nn.ReLU(), nn.Conv2d(6, 6, 3)).eval()
for p in features.parameters():
    p.requires_grad_(False)
wanted = features(torch.rand(1, 1, 8, 8))
image = torch.rand(1, 1, 8, 8, requires_grad=True)
optimizer = torch.optim.Adam([image], lr=0.02)
for step in range(40):
    optimizer.zero_grad()
    loss = F.mse_loss(features(image), wanted)
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        image.clamp_(0, 1)
print("distance", loss.item())
