"""The losses of an update are gathered first and divided by how many they are: four, and two at the end of an epoch."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(1)
data = TensorDataset(torch.randn(160, 6), torch.randn(160, 1))
loader = DataLoader(data, batch_size=16, shuffle=True)
net = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
criterion = nn.MSELoss()


def update(batches):
    for x, y in batches:
        (criterion(net(x), y) / len(batches)).backward()
    optimizer.step()
    optimizer.zero_grad()


for epoch in range(5):
    waiting = []
    for batch in loader:
        waiting.append(batch)
        if len(waiting) == 4:
            update(waiting)
            waiting = []
    if waiting:
        update(waiting)
