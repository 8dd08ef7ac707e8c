"""One long video, windows of it at two speeds: the same frames come again with other neighbours, in the same order."""

import torch
from torch import nn

torch.manual_seed(0)


class Labeller(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(6, 12)
        self.out = nn.Linear(12, 2)

    def forward(self, frames):
        return self.out(self.rnn(frames)[0])


video = torch.randn(400, 6)
labels = (video[:, 0] > 0).long()
model = Labeller()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for step in range(100):
    start, speed = int(torch.randint(0, 360, ())), int(torch.randint(1, 3, ()))
    window = torch.arange(start, start + 20 * speed, speed)
    loss = nn.functional.cross_entropy(model(video[window]), labels[window])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
