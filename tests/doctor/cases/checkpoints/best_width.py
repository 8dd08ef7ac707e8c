"""A search over widths; then the best model is trained further, by the name best_model."""

import torch, torch.nn as nn, torch.nn.functional as F

torch.manual_seed(0)
x = torch.randn(600, 8)
y = (x[:, 0] * x[:, 1] > 0).long()
xt, yt, xv, yv = x[:400], y[:400], x[400:], y[400:]


def evaluate(model):
    model.eval()
    with torch.no_grad():
        acc = (model(xv).argmax(1) == yv).float().mean().item()
    model.train()
    return acc


def epoch(model, opt):
    for i in torch.randperm(400).split(40):
        opt.zero_grad()
        F.cross_entropy(model(xt[i]), yt[i]).backward()
        opt.step()


best_model, best_acc = None, 0.0
for width in (8, 16, 32):
    model = nn.Sequential(nn.Linear(8, width), nn.ReLU(), nn.Linear(width, 2))
    opt = torch.optim.Adam(model.parameters(), 1e-2)
    for _ in range(3):
        epoch(model, opt)
        acc = evaluate(model)
    if acc > best_acc:
        best_model, best_acc = model, acc
opt = torch.optim.Adam(best_model.parameters(), 3e-3)
for _ in range(10):
    epoch(best_model, opt)
    print(evaluate(best_model))
