import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
g = torch.Generator().manual_seed(1)
def reg(n, d=6):
    x = torch.randn(n, d, generator=g)
    return x, (x @ torch.arange(1., d + 1) * 0.3 + 0.1 * torch.randn(n, generator=g))

x, y = reg(640); xv, yv = reg(170)
loader = DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True)
valid = DataLoader(TensorDataset(xv, yv * torch.where(torch.arange(170) > 159, 3.0, 1.0)), batch_size=32)
model = nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.Tanh(), nn.Dropout(0.2), nn.Linear(16, 1))
opt = torch.optim.Adam(model.parameters(), lr=5e-3)
def mse(p, t): return ((p.squeeze(1) - t) ** 2).mean()
def evaluate():
    model.eval(); acc = 0.0
    with torch.no_grad():
        for a, b in valid:
            hit = ((model(a).squeeze(1) - b).abs() < 0.5).float().mean()
            acc += float(hit)
    return acc / len(valid)
for epoch in range(5):
    model.train()
    for a, b in loader:
        loss = mse(model(a), b)
        opt.zero_grad(); loss.backward(); opt.step()
    print(epoch, evaluate())
