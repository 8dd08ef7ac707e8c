import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def attack(model, x, y, eps=0.1):
    was = model.training
    model.eval()
    x = x.clone().requires_grad_(True)
    grad = torch.autograd.grad(F.cross_entropy(model(x), y), x)[0]
    model.train(was)
    return (x + eps * grad.sign()).detach()


torch.manual_seed(9)
x = torch.randn(220, 6)
y = (x[:, 0] > 0.2 * x[:, 1]).long()
train = DataLoader(TensorDataset(x[:160], y[:160]), batch_size=16, shuffle=True)
test = DataLoader(TensorDataset(x[160:], y[160:]), batch_size=30)
model = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 2))
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(4):
    model.train()
    for xb, yb in train:
        adv = attack(model, xb, yb)
        opt.zero_grad()
        loss = 0.5 * F.cross_entropy(model(xb), yb) + 0.5 * F.cross_entropy(model(adv), yb)
        loss.backward()
        opt.step()
    model.eval()
    clean = robust = 0
    for a, b in test:
        adv = attack(model, a, b)
        with torch.no_grad():
            clean += (model(a).argmax(1) == b).sum().item()
            robust += (model(adv).argmax(1) == b).sum().item()
    print(epoch, clean, robust)
