"""Parameters carry marks of their own for the weight-decay groups."""

import torch
import torch.nn as nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(5, 16), nn.LayerNorm(16), nn.ReLU(), nn.Linear(16, 1))
for name, p in model.named_parameters():
    p.no_decay = p.dim() < 2
    p.label = name
    p.requires_grad = True
groups = [
    {"params": [p for p in model.parameters() if not p.no_decay], "weight_decay": 0.01},
    {"params": [p for p in model.parameters() if p.no_decay], "weight_decay": 0.0},
]
optimizer = torch.optim.AdamW(groups, lr=3e-3)
x = torch.randn(200, 5)
y = x[:, :1] * x[:, 1:2]
for epoch in range(4):
    for part in torch.randperm(200).split(20):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x[part]), y[part])
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
