"""Five-fold cross-validation of a small network."""

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Subset, TensorDataset


def build():
    return nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, 2))


def accuracy(model, loader):
    model.eval()
    right, n = 0, 0
    with torch.no_grad():
        for x, y in loader:
            right += (model(x).argmax(1) == y).sum().item()
            n += y.numel()
    return right / n


def fit(model, loader, epochs):
    opt = torch.optim.Adam(model.parameters(), lr=0.01)
    loss_fn = nn.CrossEntropyLoss()
    for _ in range(epochs):
        model.train()
        for x, y in loader:
            opt.zero_grad()
            loss_fn(model(x), y).backward()
            opt.step()


torch.manual_seed(4)
x = torch.randn(250, 5)
y = (x[:, 0] + x[:, 1] ** 2 > 0.7).long()
data = TensorDataset(x, y)
folds = np.array_split(np.random.default_rng(4).permutation(250), 5)
scores = []
for k, held_out in enumerate(folds):
    rest = np.concatenate([f for j, f in enumerate(folds) if j != k])
    train_loader = DataLoader(Subset(data, rest.tolist()), batch_size=20, shuffle=True)
    test_loader = DataLoader(Subset(data, held_out.tolist()), batch_size=50)
    model = build()
    fit(model, train_loader, 3)
    scores.append(accuracy(model, test_loader))
print("mean accuracy", sum(scores) / len(scores))
