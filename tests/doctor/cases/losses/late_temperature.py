"""Species with a temperature in the wrong place."""
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(7)
x = torch.randn(1800, 12)
y = (x[:, :5] + 0.2 * torch.randn(1800, 5)).argmax(1)


class Species(nn.Module):
    def __init__(self, temperature=0.5):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(12, 48), nn.ReLU(), nn.Linear(48, 5))
        self.temperature = temperature

    def forward(self, x):
        return F.softmax(self.net(x), dim=-1) / self.temperature


model = Species()
opt = torch.optim.Adam(model.parameters(), lr=3e-3)
for epoch in range(6):
    for idx in torch.randperm(1500).split(50):
        loss = F.cross_entropy(model(x[idx]), y[idx])
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(epoch, loss.item())
