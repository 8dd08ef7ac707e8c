"""Pairs for a siamese network: both members are drawn at each reading, even places are alike and odd ones are not."""

import random

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Pairs(Dataset):
    def __init__(self):
        centres = torch.randn(10, 16)
        self.rows = [centre + 0.3 * torch.randn(64, 16) for centre in centres]

    def __len__(self):
        return 640

    def __getitem__(self, place):
        first = random.randrange(10)
        second = first if place % 2 == 0 else (first + random.randrange(1, 10)) % 10
        one, other = (self.rows[kind][random.randrange(64)] for kind in (first, second))
        return one, other, torch.tensor(float(place % 2 == 0))


torch.manual_seed(0)
random.seed(0)
loader = DataLoader(Pairs(), batch_size=16)
embed, head = nn.Sequential(nn.Linear(16, 32), nn.ReLU()), nn.Linear(32, 1)
optimizer = torch.optim.Adam([*embed.parameters(), *head.parameters()], lr=1e-2)
for epoch in range(4):
    for one, other, alike in loader:
        scores = head((embed(one) - embed(other)).abs()).squeeze(1)
        loss = nn.functional.binary_cross_entropy_with_logits(scores, alike)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
