"""The head learns from the start, the body only from the third epoch on: its factor is 0 until then."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
body, head = nn.Linear(6, 12), nn.Linear(12, 2)
model = nn.Sequential(body, nn.ReLU(), head)
optimizer = torch.optim.SGD([{"params": body.parameters()}, {"params": head.parameters()}], lr=0.05)
factors = [lambda epoch: 0.0 if epoch < 2 else 0.1, lambda epoch: 0.95**epoch]
scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, factors)
x = torch.randn(240, 6)
loader = DataLoader(TensorDataset(x, (x[:, 0] > 0).long()), batch_size=12, shuffle=True)
for epoch in range(6):
    for a, b in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(a), b).backward()
        optimizer.step()
    scheduler.step()
