"""Symptoms from lab values: one small head for each."""
import torch
from torch import nn

torch.manual_seed(1)
x = torch.randn(2000, 15)
y = (x[:, :4] + 0.4 * torch.randn(2000, 4) > 0.5).float()


class Heads(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(15, 48), nn.ReLU())
        self.heads = nn.ModuleList(nn.Sequential(nn.Linear(48, 1), nn.Sigmoid()) for _ in range(4))

    def forward(self, x):
        h = self.trunk(x)
        return torch.cat([head(h) for head in self.heads], dim=1)


model, loss_fn = Heads(), nn.BCELoss()
opt = torch.optim.Adam(model.parameters(), lr=3e-3)
for epoch in range(6):
    for idx in torch.randperm(1600).split(64):
        loss = loss_fn(model(x[idx]), y[idx])
        opt.zero_grad()
        loss.backward()
        opt.step()
    with torch.no_grad():
        print(epoch, ((model(x[1600:]) > 0.5).float() == y[1600:]).float().mean().item())
