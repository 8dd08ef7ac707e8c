import copy

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(32)
x = torch.randn(5, 10)[torch.randint(0, 5, (480,))] + 0.3 * torch.randn(480, 10)
loader = DataLoader(TensorDataset(x), batch_size=32, shuffle=True, drop_last=True)
online = nn.Sequential(nn.Linear(10, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 8))
predictor = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 8))
target = copy.deepcopy(online)
for p in target.parameters():
    p.requires_grad = False
optimizer = torch.optim.SGD([*online.parameters(), *predictor.parameters()], lr=0.05, momentum=0.9)


def view(t):
    return t + 0.2 * torch.randn_like(t)


def regression(p, z):
    return 2 - 2 * F.cosine_similarity(p, z, dim=-1).mean()


for epoch in range(3):
    for (xb,) in loader:
        a, b = view(xb), view(xb)
        with torch.no_grad():
            za, zb = target(a), target(b)
        loss = regression(predictor(online(a)), zb) + regression(predictor(online(b)), za)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for p, t in zip(online.parameters(), target.parameters()):
                t.mul_(0.95).add_(0.05 * p)
    print(epoch, loss.item())
