import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def saliency(model, x, y):
    model.eval()
    x = x.clone().requires_grad_(True)
    score = model(x).gather(1, y.unsqueeze(1)).sum()
    (grad,) = torch.autograd.grad(score, x)
    return grad.abs().amax(dim=(1, 2, 3))


def fgsm(model, x, y, eps=0.05):
    model.eval()
    x = x.clone().requires_grad_(True)
    loss = F.cross_entropy(model(x), y)
    model.zero_grad()
    loss.backward()
    attacked = (x + eps * x.grad.sign()).detach()
    model.zero_grad()
    return attacked


torch.manual_seed(23)
y = torch.randint(0, 2, (300,))
x = torch.randn(300, 1, 6, 6)
x[y == 1, :, 2:4, 2:4] += 1.0
loader = DataLoader(TensorDataset(x[:260], y[:260]), batch_size=20, shuffle=True)
model = nn.Sequential(nn.Conv2d(1, 6, 3), nn.ReLU(), nn.Flatten(), nn.Dropout(0.1), nn.Linear(96, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for epoch in range(3):
    model.train()
    for xb, yb in loader:
        optimizer.zero_grad()
        F.cross_entropy(model(xb), yb).backward()
        optimizer.step()
    held_x, held_y = x[260:], y[260:]
    strength = saliency(model, held_x, held_y).mean().item()
    attacked = fgsm(model, held_x, held_y)
    with torch.no_grad():
        robust = (model(attacked).argmax(1) == held_y).float().mean().item()
    print(epoch, strength, robust)
