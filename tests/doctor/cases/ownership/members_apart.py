"""An ensemble of five regressors for the spread of predictions."""

import torch
from torch import nn
import torch.nn.functional as F


def member(width=32, seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(6, width), nn.Tanh(), nn.Linear(width, 1))


class Ensemble(nn.Module):
    def __init__(self, count):
        super().__init__()
        self.members = nn.ModuleList(member(seed=i) for i in range(count))

    def forward(self, x):
        return torch.stack([m(x) for m in self.members])


model = Ensemble(5)
x = torch.randn(600, 6)
y = torch.sin(2 * x[:, :1]) + 0.1 * torch.randn(600, 1)
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for epoch in range(6):
    for rows in torch.randperm(600).split(30):
        out = model(x[rows])
        loss = F.mse_loss(out, y[rows].expand_as(out))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch + 1, f"{loss.item():.4f} spread {model(x[:50]).std(0).mean().item():.4f}")
