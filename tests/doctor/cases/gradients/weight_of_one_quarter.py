"""The reconstruction counts for a quarter, by choice; four micro-batches make a step, always, and are divided by four besides."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(6)
WEIGHT, EVERY = 0.25, 4
x = torch.randn(192, 10) @ torch.randn(10, 10)
loader = DataLoader(TensorDataset(x / x.std()), batch_size=16, shuffle=True)
net = nn.Sequential(nn.Linear(10, 4), nn.Tanh(), nn.Linear(4, 10))
optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)

for epoch in range(5):
    for i, (batch,) in enumerate(loader, 1):
        loss = WEIGHT * F.mse_loss(net(batch), batch)
        (loss / EVERY).backward()
        if i % EVERY == 0:
            optimizer.step()
            optimizer.zero_grad()
