"""Satellite pixels to crop types with gradient accumulation."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
ACCUM = 4
bands = torch.randn(200, 7)
crop = (bands[:, 0] > 0).long() + (bands[:, 1] > 0.5).long()
loader = DataLoader(TensorDataset(bands, crop), batch_size=20, shuffle=True)
model = nn.Sequential(nn.Linear(7, 24), nn.ReLU(), nn.Linear(24, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
criterion = nn.CrossEntropyLoss()

optimizer.zero_grad()
for epoch in range(6):
    total = 0.0
    for i, (x, y) in enumerate(loader):
        loss = criterion(model(x), y)
        (loss / ACCUM).backward()
        total += loss.item()
        if (i + 1) % ACCUM == 0:
            optimizer.step()
            optimizer.zero_grad()
    print(epoch, total / len(loader))
