"""Weights rounded to a grid for each evaluation and put back after it: no average."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
centres = torch.randn(5, 16)
y = torch.randint(5, (1280,))
x = centres[y] + torch.randn(1280, 16)
model = nn.Sequential(nn.Linear(16, 48), nn.BatchNorm1d(48), nn.ReLU(), nn.Linear(48, 24), nn.BatchNorm1d(24), nn.ReLU(), nn.Linear(24, 5))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
for epoch in range(6):
    model.train()
    for pick in torch.randperm(1024).split(32):
        optimizer.zero_grad()
        F.cross_entropy(model(x[pick]), y[pick]).backward()
        optimizer.step()
    model.eval()
    own = {name: each.clone() for name, each in model.state_dict().items()}
    with torch.no_grad():
        for each in model.parameters():
            each.copy_((each / 0.2).round() * 0.2)
        print((model(x[1024:]).argmax(1) == y[1024:]).float().mean().item())
    model.load_state_dict(own)
