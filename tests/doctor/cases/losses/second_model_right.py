"""Soils: a rough model of them is trained on many samples first, then a finer one, by the same function."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def train(model, loader, epochs):
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    criterion = nn.CrossEntropyLoss()
    for _ in range(epochs):
        for x, y in loader:
            optimizer.zero_grad()
            criterion(model(x), y).backward()
            optimizer.step()


torch.manual_seed(0)
x = torch.randn(640, 5)
data = TensorDataset(x, x[:, :3].argmax(1))
rough = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 3))
train(rough, DataLoader(data, batch_size=8, shuffle=True), epochs=2)
fine = nn.Sequential(nn.Linear(5, 32), nn.ReLU(), nn.Linear(32, 3))
train(fine, DataLoader(data, batch_size=64, shuffle=True), epochs=2)
