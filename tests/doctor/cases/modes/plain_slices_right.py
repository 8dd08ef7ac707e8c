"""Defects in signals: convolutions, data held in memory."""
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(4)
n = 1600
base = torch.randn(n, 1, 48)
y = torch.randint(0, 2, (n,))
base[y == 1, :, 20:28] += 1.0
perm = torch.randperm(n)
xtr, ytr, xva, yva = base[perm[:1200]], y[perm[:1200]], base[perm[1200:]], y[perm[1200:]]


class Conv(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Conv1d(1, 8, 5, padding=2)
        self.b = nn.Conv1d(8, 16, 5, stride=2)
        self.out = nn.Linear(16, 2)

    def forward(self, x):
        return self.out(F.relu(self.b(F.relu(self.a(x)))).mean(2))


@torch.inference_mode()
def accuracy(model, x, y):
    hits = 0
    for i in range(0, len(x), 100):
        hits += int((model(x[i:i + 100]).argmax(1) == y[i:i + 100]).sum())
    return hits / len(x)


model = Conv()
opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
for epoch in range(6):
    for idx in torch.randperm(len(xtr)).split(40):
        loss = F.cross_entropy(model(xtr[idx]), ytr[idx])
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(epoch, accuracy(model, xva, yva))
