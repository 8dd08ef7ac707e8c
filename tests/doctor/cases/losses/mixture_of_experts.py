import torch
import torch.nn.functional as F
from torch import nn


class Mixture(nn.Module):
    def __init__(self, d=8, classes=4, experts=3):
        super().__init__()
        self.gate = nn.Linear(d, experts)
        self.experts = nn.ModuleList(nn.Linear(d, classes) for _ in range(experts))

    def forward(self, x):
        gate = self.gate(x).softmax(dim=1).unsqueeze(2)
        probs = torch.stack([e(x).softmax(dim=1) for e in self.experts], dim=1)
        return torch.log((gate * probs).sum(dim=1) + 1e-8)


torch.manual_seed(23)
x = torch.randn(512, 8)
y = 2 * (x[:, 0] > 0).long() + (x[:, 1] * x[:, 0] > 0).long()
model = Mixture()
optimizer = torch.optim.Adam(model.parameters(), lr=2e-2)
criterion = nn.NLLLoss()
for epoch in range(3):
    for rows in torch.randperm(512).split(32):
        loss = criterion(model(x[rows]), y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
