"""Short clips, batches cut by hand from a permutation: 60 of them make an epoch."""

import torch
from torch import nn


class Clips(nn.Module):
    def __init__(self):
        super().__init__()
        self.frame = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1))
        self.time = nn.LSTM(4, 8)
        self.head = nn.Linear(8, 2)

    def forward(self, x):
        b, t, c, h, w = x.shape
        features = self.frame(x.view(b * t, c, h, w)).view(t, b, 4)
        out, _ = self.time(features)
        return self.head(out[-1])


torch.manual_seed(0)
clips = torch.randn(960, 5, 1, 6, 6)
labels = (clips.mean((1, 2, 3, 4)) > 0).long()
model = Clips()
optimizer = torch.optim.Adam(model.parameters())
size = 16
for epoch in range(2):
    order = torch.randperm(len(clips))
    for start in range(0, len(clips), size):
        chosen = order[start : start + size]
        loss = nn.functional.cross_entropy(model(clips[chosen]), labels[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
