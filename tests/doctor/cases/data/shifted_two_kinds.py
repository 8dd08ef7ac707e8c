"""Two kinds of signals that are rolled at random, in training and in validation; a binary loss."""

import torch
from torch import nn


class Signals:
    def __init__(self, count, seed, shift):
        g = torch.Generator().manual_seed(seed)
        self.y = torch.randint(0, 2, (count,), generator=g)
        wave = torch.sin((1 + self.y)[:, None] * torch.arange(48) / 4)
        self.x = (wave + 0.8 * torch.randn(count, 48, generator=g)).unsqueeze(1)
        self.shift = shift

    def read(self, pick):
        shifts = torch.randint(-self.shift, self.shift + 1, (len(pick),)).tolist()
        return torch.stack([row.roll(by, -1) for row, by in zip(self.x[pick], shifts)]), self.y[pick]


torch.manual_seed(24)
train, valid = Signals(480, 1, shift=16), Signals(160, 2, shift=16)
model = nn.Sequential(nn.Conv1d(1, 12, 7, padding=3), nn.ReLU(), nn.AdaptiveMaxPool1d(1), nn.Flatten(), nn.Linear(12, 1), nn.Flatten(0))
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for epoch in range(8):
    model.train()
    for pick in torch.randperm(480).split(32):
        x, y = train.read(pick)
        loss = nn.functional.binary_cross_entropy_with_logits(model(x), y.float())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.inference_mode():
        x, y = valid.read(torch.arange(160))
        scores = model(x)
        print(epoch, nn.functional.binary_cross_entropy_with_logits(scores, y.float()).item())
