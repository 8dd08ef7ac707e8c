"""Alarms from gated scores."""
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(33)
x = torch.randn(1500, 6, 10)
y = (x[..., 0].amax(1) > 1.5).float()


class Gated(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate, self.score = nn.Linear(10, 16), nn.Linear(16, 1)

    def forward(self, x):
        h = torch.sigmoid(self.gate(x))
        return torch.cat([self.score(h).squeeze(-1), self.score(h.mean(1, keepdim=True)).squeeze(-1)], 1).amax(1)


model = Gated()
opt = torch.optim.Adam(model.parameters(), lr=3e-3)
for epoch in range(5):
    for idx in torch.randperm(1200).split(40):
        loss = F.binary_cross_entropy_with_logits(model(x[idx]), y[idx])
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(epoch, loss.item())
