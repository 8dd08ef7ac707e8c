"""Adversarial training: a first backward pass finds the perturbation, a second one trains."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def fgsm(model, x, y, eps):
    x = x.clone().detach().requires_grad_(True)
    F.cross_entropy(model(x), y).backward()
    return (x + eps * x.grad.sign()).detach()


def main(epochs=3):
    torch.manual_seed(0)
    data = torch.randn(192, 2)
    labels = (data[:, 0] * data[:, 1] > 0).long()
    loader = DataLoader(TensorDataset(data, labels), batch_size=16, shuffle=True)
    model = nn.Sequential(nn.Linear(2, 24), nn.ReLU(), nn.Linear(24, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for epoch in range(epochs):
        model.train()
        for x, y in loader:
            x_adv = fgsm(model, x, y, 0.05)
            optimizer.zero_grad()
            loss = 0.5 * (F.cross_entropy(model(x), y) + F.cross_entropy(model(x_adv), y))
            loss.backward()
            optimizer.step()
        print(epoch, loss.item())


if __name__ == "__main__":
    main()
