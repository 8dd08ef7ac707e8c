"""Counting pulses in simulated traces; every batch is new."""

import torch
from torch import nn

torch.manual_seed(6)


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(2, 32, batch_first=True)
        self.out = nn.Linear(32, 3)

    def forward(self, x):
        h, _ = self.rnn(x)
        return self.out(h[:, -1])


def simulate(n, length=18):
    y = torch.randint(3, (n,))
    x = 0.3 * torch.randn(n, length, 2)
    for i, pulses in enumerate((y + 1).tolist()):
        x[i, torch.randperm(length)[:pulses], 0] += 2.0
    return x, y


model = Counter()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for step in range(150):
    x, y = simulate(40)
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 30 == 29:
        print(step + 1, f"{loss.item():.3f}")
