"""Draws a batch of windows for every step."""

import torch
import torch.nn as nn

signal = torch.sin(torch.arange(2000) * 0.07) + 0.3 * torch.sin(torch.arange(2000) * 0.31)
window, batch = 20, 24


def get_batch(seed=5):
    torch.manual_seed(seed)
    start = torch.randint(0, len(signal) - window - 1, (batch,))
    x = torch.stack([signal[s : s + window] for s in start])
    y = torch.stack([signal[s + window] for s in start])
    return x, y


class Forecast(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(window, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, x):
        return self.net(x).squeeze(-1)


torch.manual_seed(0)
model = Forecast()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
loss_fn = nn.MSELoss()
model.train()
for step in range(60):
    x, y = get_batch()
    optimizer.zero_grad()
    loss = loss_fn(model(x), y)
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item())
