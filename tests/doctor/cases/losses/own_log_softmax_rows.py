import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
g = torch.Generator().manual_seed(1)


def cls(n, d=8, k=4):
    x = torch.randn(n, d, generator=g)
    return x, (x[:, :k]).argmax(1)


x, y = cls(640)
xv, yv = cls(170)
loader = DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True)
valid = DataLoader(TensorDataset(xv, yv), batch_size=32)
model = nn.Sequential(nn.Linear(8, 24), nn.ReLU(), nn.Linear(24, 4))
opt = torch.optim.Adam(model.parameters(), lr=5e-3)


def logsoft(z):
    return z - z.logsumexp(1, keepdim=True)


def soft(z):
    e = (z - z.max(1, keepdim=True).values).exp()
    return e / e.sum(1, keepdim=True)


def loss_of(z, t):
    lp = z - z.logsumexp(0, keepdim=True)
    return -lp.gather(1, t[:, None]).mean()


for epoch in range(5):
    model.train()
    for a, b in loader:
        loss = loss_of(model(a), b)
        opt.zero_grad()
        loss.backward()
        opt.step()
    model.eval()
    with torch.no_grad():
        s = sum((model(a).argmax(1) == b).sum().item() for a, b in valid) / 170
    print(epoch, s)
