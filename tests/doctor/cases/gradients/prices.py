"""House prices from a few numbers."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def get_loader():
    torch.manual_seed(2)
    x = torch.randn(192, 6)
    y = x @ torch.randn(6, 1) + 0.1 * torch.randn(192, 1)
    return DataLoader(TensorDataset(x, y), batch_size=24, shuffle=True)


loader = get_loader()
model = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 1))
criterion = nn.MSELoss()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

for epoch in range(5):
    running = 0.0
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        optimizer.step()
        loss.backward()
        running += loss.item()
    print("epoch %d loss %.4f" % (epoch, running / len(loader)))
