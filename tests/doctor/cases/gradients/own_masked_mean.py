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
loader = DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True)
model = nn.Sequential(nn.Linear(8, 24), nn.ReLU(), nn.Linear(24, 4))
opt = torch.optim.SGD(model.parameters(), lr=5e-2)


def logsoft(z):
    return z - z.logsumexp(1, keepdim=True)


for epoch in range(5):
    for i, (a, b) in enumerate(loader):
        z = model(a)
        m = torch.rand(16) < 0.7
        loss = -(logsoft(z).gather(1, b[:, None]).squeeze(1) * m).sum() / m.sum()
        loss.backward()
        if (i + 1) % 4 == 0:
            opt.step()
            opt.zero_grad()
