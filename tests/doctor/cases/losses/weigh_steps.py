"""Attention over the steps of a sequence, normalised by a function from elsewhere, written for one sequence."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)


def normalise(scores):
    e = (scores - scores.max()).exp()
    return e / e.sum(0)


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn, self.score, self.out = nn.GRU(5, 24, batch_first=True), nn.Linear(24, 1), nn.Linear(24, 3)
        self.weigh = normalise

    def forward(self, x):
        h, _ = self.rnn(x)
        a = self.weigh(self.score(h).squeeze(-1))
        return self.out(torch.bmm(a.unsqueeze(1), h).squeeze(1))


x = torch.randn(512, 11, 5)
y = x[:, :, 0].sum(1).gt(0).long() + x[:, :, 1].sum(1).gt(0).long()
loader = DataLoader(TensorDataset(x, y), 16, shuffle=True)
model = Reader()
opt = torch.optim.Adam(model.parameters(), 3e-3)
for _ in range(3):
    for a, b in loader:
        opt.zero_grad()
        nn.functional.cross_entropy(model(a), b).backward()
        opt.step()
