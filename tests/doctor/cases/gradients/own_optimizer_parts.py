import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
g = torch.Generator().manual_seed(1)


def cls(n, d=8, k=4):
    x = torch.randn(n, d, generator=g)
    return x, (x[:, :k]).argmax(1)


class Sgd:
    def __init__(self, params, lr=0.05, m=0.9):
        self.params = list(params)
        self.lr, self.m = lr, m
        self.bufs = [torch.zeros_like(p) for p in self.params]

    def step(self):
        with torch.no_grad():
            for p, b in zip(self.params, self.bufs):
                if p.grad is None:
                    continue
                b.mul_(self.m).add_(p.grad)
                p.sub_(self.lr * b)

    def zero_grad(self):
        for p in self.params:
            p.grad = None


x, y = cls(640)
xv, yv = cls(170)
loader = DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True)
valid = DataLoader(TensorDataset(xv, yv), batch_size=34)
model = nn.Sequential(nn.Linear(8, 24), nn.BatchNorm1d(24), nn.ReLU(), nn.Dropout(0.2), nn.Linear(24, 4))
opt = Sgd(model.parameters())
hist = []
for epoch in range(4):
    model.train()
    for i, (a, b) in enumerate(loader):
        loss = F.cross_entropy(model(a), b)
        loss.backward()
        hist.append(loss.item())
        if i % 4 == 3:
            opt.step()
            opt.zero_grad()
    model.eval()
    with torch.no_grad():
        print(sum((model(a).argmax(1) == b).sum().item() for a, b in valid) / 170)
