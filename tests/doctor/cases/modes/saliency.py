import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(12)
x = torch.randn(240, 9)
y = (x[:, 2] > 0).long()
train = DataLoader(TensorDataset(x[:200], y[:200]), batch_size=20, shuffle=True)
held = DataLoader(TensorDataset(x[200:], y[200:]), batch_size=10)
model = nn.Sequential(nn.Linear(9, 24), nn.ReLU(), nn.Dropout(0.1), nn.Linear(24, 2))
opt = torch.optim.AdamW(model.parameters(), lr=5e-3)
for epoch in range(3):
    model.train()
    for xb, yb in train:
        opt.zero_grad()
        nn.functional.cross_entropy(model(xb), yb).backward()
        opt.step()
    model.eval()
    importance = torch.zeros(9)
    for xb, yb in held:
        xb = xb.clone().requires_grad_(True)
        score = model(xb).gather(1, yb[:, None]).sum()
        (grad,) = torch.autograd.grad(score, xb)
        importance += grad.abs().mean(0)
    with torch.no_grad():
        right = sum((model(a).argmax(1) == b).sum().item() for a, b in held)
    print(epoch, right, importance.argmax().item())
