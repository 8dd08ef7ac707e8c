import torch
import torch.nn as nn
import torch.nn.functional as F


class MCDropout(nn.Module):
    def __init__(self, p):
        super().__init__()
        self.p = p

    def forward(self, x):
        return F.dropout(x, self.p, training=True)


torch.manual_seed(17)
x = torch.rand(200, 3)
y = x.prod(1, keepdim=True)
model = nn.Sequential(nn.Linear(3, 32), nn.ReLU(), MCDropout(0.1), nn.Linear(32, 1))
opt = torch.optim.Adam(model.parameters(), lr=5e-3)
for epoch in range(4):
    model.train()
    for rows in torch.randperm(160).split(16):
        opt.zero_grad()
        F.mse_loss(model(x[rows]), y[rows]).backward()
        opt.step()
model.eval()
with torch.no_grad():
    draws = torch.stack([model(x[160:]) for _ in range(30)])
print(draws.mean(0).mean().item(), draws.std(0).mean().item())
