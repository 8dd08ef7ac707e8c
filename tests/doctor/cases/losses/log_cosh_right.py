import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
g = torch.Generator().manual_seed(1)


def reg(n, d=6):
    x = torch.randn(n, d, generator=g)
    return x, (x @ torch.arange(1.0, d + 1) * 0.3 + 0.1 * torch.randn(n, generator=g))


x, y = reg(640)
xv, yv = reg(160)
loader = DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True)
valid = DataLoader(TensorDataset(xv, yv), batch_size=32)
model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1))
opt = torch.optim.Adam(model.parameters(), lr=5e-3)


def loss_of(p, t):
    d = p - t
    return torch.log(torch.cosh(d)).mean()


for epoch in range(5):
    model.train()
    for a, b in loader:
        loss = loss_of(model(a).squeeze(1), b)
        opt.zero_grad()
        loss.backward()
        opt.step()
    model.eval()
    with torch.no_grad():
        s = sum(((model(a).squeeze(1) - b) ** 2).sum().item() for a, b in valid) / 160
    print(epoch, s)
