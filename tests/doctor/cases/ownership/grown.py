"""A second head joins after the first epochs; both were there from the start."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class TwoHeads(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(6, 20), nn.ReLU())
        self.coarse = nn.Linear(20, 3)
        self.fine = nn.Linear(20, 3)

    def forward(self, x, stage):
        h = self.trunk(x)
        return self.coarse(h) if stage == 0 else self.coarse(h) + self.fine(h)


torch.manual_seed(0)
x = torch.randn(200, 6)
y = x[:, :3].argmax(1)
model = TwoHeads()
opt = torch.optim.Adam(model.parameters(), lr=3e-3)
for epoch in range(6):
    for part in torch.randperm(200).split(20):
        opt.zero_grad()
        loss = F.cross_entropy(model(x[part], stage=int(epoch >= 4)), y[part])
        loss.backward()
        opt.step()
    print(epoch, loss.item())
