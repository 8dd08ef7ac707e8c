"""Random windows of a long signal; training stops before validation begins."""

import torch
from torch import nn

torch.manual_seed(21)
signal = torch.sin(torch.arange(1000) / 7) + 0.3 * torch.randn(1000)
size = 24


def windows(starts):
    cut = signal[starts[:, None] + torch.arange(size + 1)]
    return cut[:, :size], cut[:, size:]


model = nn.Sequential(nn.Linear(size, 48), nn.ReLU(), nn.Linear(48, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
xv, yv = windows(torch.arange(700, 970, 3))
for step in range(1, 181):
    model.train()
    x, y = windows(torch.randint(0, 670, (48,)))
    loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 60 == 0:
        model.eval()
        with torch.no_grad():
            print(step, nn.functional.mse_loss(model(xv), yv).item())
