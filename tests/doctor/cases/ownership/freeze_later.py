import copy

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 2))
ema = copy.deepcopy(model).requires_grad_(False)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
x = torch.randn(200, 6)
y = (x[:, 0] > 0).long()
for epoch in range(5):
    if epoch == 2:
        model[0].requires_grad_(False)
    for part in torch.randperm(200).split(20):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x[part]), y[part])
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for a, b in zip(ema.parameters(), model.parameters(), strict=False):
                a.lerp_(b, 0.05)
    print(epoch, loss.item())
