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
opt = torch.optim.Adam(model.parameters(), lr=5e-3)
def clip(params, limit=0.5):
    total = torch.sqrt(sum((p.grad ** 2).sum() for p in params if p.grad is not None) + 1e-12)
    if total > limit:
        for p in params:
            if p.grad is not None: p.grad.mul_(limit / total)
P = list(model.parameters())
for epoch in range(5):
    for a, b in loader:
        loss = F.cross_entropy(model(a), b)
        loss.backward(); [p.grad.clamp_(-0.1, 0.1) for p in P]; opt.step(); opt.zero_grad()
