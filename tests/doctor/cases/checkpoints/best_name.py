"""Keep the best model by validation, test it at the end."""

import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(19)
x = torch.randn(1000, 12)
y = (x @ torch.randn(12, 4) + 0.8 * torch.randn(1000, 4)).argmax(1)
xt, xv, xs = x.split([600, 200, 200])
yt, yv, ys = y.split([600, 200, 200])


def accuracy(model, x, y):
    model.eval()
    with torch.no_grad():
        return (model(x).argmax(1) == y).float().mean().item()


def train(model, epochs=12):
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    best, best_model = 0.0, None
    for epoch in range(epochs):
        model.train()
        for rows in torch.randperm(600).split(30):
            loss = F.cross_entropy(model(xt[rows]), yt[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        score = accuracy(model, xv, yv)
        if score > best:
            best, best_model = score, model
            print(epoch + 1, f"new best {score:.3f}")
    return best_model


best_model = train(nn.Sequential(nn.Linear(12, 64), nn.ReLU(), nn.Linear(64, 4)))
print(f"test {accuracy(best_model, xs, ys):.3f}")
