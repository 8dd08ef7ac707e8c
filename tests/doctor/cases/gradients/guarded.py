"""Skips the updates of batches that went wrong."""

import torch
import torch.nn.functional as F
from torch import nn


class Ratio(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))

    def forward(self, x):
        return self.net(x).squeeze(1)


def main():
    torch.manual_seed(0)
    model = Ratio()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    skipped = 0
    for step in range(60):
        x = torch.randn(12, 4)
        y = x[:, 0] / x[:, 1].abs().clamp(min=0.5)
        if step % 9 == 4:
            y[0] = float("nan")
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        if not torch.isfinite(norm):
            skipped += 1
            optimizer.zero_grad()
            continue
        optimizer.step()
        if step % 20 == 0:
            print(step, loss.item())
    print("skipped", skipped)


main()
