"""Two tasks, each divided by the two micro-batches of an update."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(2)
x = torch.randn(480, 8)
y, z = x[:, :3].argmax(1), x.sum(1, keepdim=True)
loader = DataLoader(TensorDataset(x, y, z), batch_size=24, shuffle=True)
body = nn.Sequential(nn.Linear(8, 16), nn.Tanh())
classes, value = nn.Linear(16, 3), nn.Linear(16, 1)
optimizer = torch.optim.Adam([*body.parameters(), *classes.parameters(), *value.parameters()], lr=1e-2)
micro = 2
for epoch in range(4):
    for i, (bx, by, bz) in enumerate(loader, 1):
        h = body(bx)
        loss = 1 / micro * nn.functional.cross_entropy(classes(h), by) + 1 / micro * nn.functional.mse_loss(value(h), bz)
        loss.backward()
        if i % micro == 0:
            optimizer.step()
            optimizer.zero_grad()
    print(epoch, loss.item())
