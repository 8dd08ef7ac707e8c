"""Train a regressor and log the size of its gradients."""

import math

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def grad_norm(model):
    return nn.utils.clip_grad_norm_(model.parameters(), math.inf).item()


def train(model, loader, epochs):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    log = []
    for epoch in range(epochs):
        for x, y in loader:
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(x), y)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            log.append(grad_norm(model))
        print(epoch, loss.item(), sum(log[-len(loader) :]) / len(loader))


torch.manual_seed(0)
x = torch.randn(160, 4)
train(
    nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2)), DataLoader(TensorDataset(x, x[:, :2] ** 2), 16, shuffle=True), 4
)
