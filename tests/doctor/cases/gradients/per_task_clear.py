"""Three properties of an alloy from one trunk. The clearing stands inside the loop over the properties."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Alloy(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(5, 16), nn.Tanh())
        self.heads = nn.ModuleList(nn.Linear(16, 1) for _ in range(3))

    def forward(self, x, which):
        return self.heads[which](self.trunk(x)).squeeze(1)


torch.manual_seed(0)
x = torch.randn(96, 5)
y = torch.stack([x[:, 0], x[:, 1] * x[:, 2], x.sum(1)], 1)
loader = DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True)
model = Alloy()
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
for _ in range(4):
    for xb, yb in loader:
        for which in range(3):
            optimizer.zero_grad()
            F.mse_loss(model(xb, which), yb[:, which]).backward()
        optimizer.step()
