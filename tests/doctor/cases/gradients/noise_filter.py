"""Remove noise from short signals with an autoencoder."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn


class Autoencoder(nn.Module):
    def __init__(self, length, code):
        super().__init__()
        self.encode = nn.Sequential(nn.Linear(length, 24), nn.Tanh(), nn.Linear(24, code))
        self.decode = nn.Sequential(nn.Linear(code, 24), nn.Tanh(), nn.Linear(24, length), nn.Tanh())

    def forward(self, x):
        return self.decode(self.encode(x))


def signals(n, length):
    t = torch.linspace(0, 6.28, length)
    clean = torch.sin(t * (1 + torch.rand(n, 1)) + 6.28 * torch.rand(n, 1))
    return clean + 0.2 * torch.randn(n, length), clean


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float, default=3.0)
    parser.add_argument("--decay", type=float, default=0.5)
    parser.add_argument("--steps", type=int, default=60)
    args = parser.parse_args()
    torch.manual_seed(4)
    model = Autoencoder(32, 6)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, weight_decay=args.decay)
    for step in range(args.steps):
        noisy, clean = signals(32, 32)
        loss = F.mse_loss(model(noisy), clean)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 20 == 0:
            print(step, f"{loss.item():.4f}")


main()
