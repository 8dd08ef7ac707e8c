"""Learn the majority of five bits; the same patterns come up again and again."""

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(8)


def sample(n):
    bits = torch.randint(0, 2, (n, 5)).float()
    return TensorDataset(bits, (bits.sum(1) > 2).float())


train_loader = DataLoader(sample(200), batch_size=20, shuffle=True)
test_loader = DataLoader(sample(80), batch_size=40)
model = nn.Sequential(nn.Linear(5, 12), nn.ReLU(), nn.Linear(12, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
criterion = nn.BCEWithLogitsLoss()
for epoch in range(5):
    model.train()
    for x, y in train_loader:
        optimizer.zero_grad()
        loss = criterion(model(x).squeeze(1), y)
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        right = sum(((model(x).squeeze(1) > 0) == y.bool()).sum().item() for x, y in test_loader)
    print(epoch, right / 80)
