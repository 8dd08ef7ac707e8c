import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
g = torch.Generator().manual_seed(1)


def cls(n, d=8, k=4):
    x = torch.randn(n, d, generator=g)
    return x, (x[:, :k]).argmax(1)


x, _ = cls(640)
y = (x[:, 0] + x[:, 1] > 0).float()
xv, _ = cls(170)
yv = (xv[:, 0] + xv[:, 1] > 0).float()
loader = DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True)
valid = DataLoader(TensorDataset(xv, yv), batch_size=32)
model = nn.Sequential(nn.Linear(8, 24), nn.ReLU(), nn.Linear(24, 1), nn.Flatten(0))
opt = torch.optim.Adam(model.parameters(), lr=5e-3)


def bce(z, t):
    return (z.clamp_min(0) - z * t + torch.log1p(torch.exp(-z.abs()))).mean()


def loss_of(z, t):
    p = torch.sigmoid(z)
    return -(t * F.logsigmoid(p) + (1 - t) * F.logsigmoid(-p)).mean()


for epoch in range(5):
    model.train()
    for a, b in loader:
        loss = loss_of(model(a), b)
        opt.zero_grad()
        loss.backward()
        opt.step()
    model.eval()
    with torch.no_grad():
        s = sum(((model(a) > 0) == (b > 0.5)).sum().item() for a, b in valid) / 170
    print(epoch, s)
