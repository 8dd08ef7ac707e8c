"""A new split in every epoch."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split

torch.manual_seed(18)
x = torch.randn(500, 8)
data = TensorDataset(x, (x[:, 0] * x[:, 1] > 0).long())
model = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)


def epoch(number):
    train, valid = random_split(data, [400, 100])
    model.train()
    for bx, by in DataLoader(train, batch_size=32, shuffle=True):
        loss = nn.functional.cross_entropy(model(bx), by)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        hits = sum((model(bx).argmax(1) == by).sum().item() for bx, by in DataLoader(valid, batch_size=100))
    print(number, hits)


for number in range(8):
    epoch(number)
