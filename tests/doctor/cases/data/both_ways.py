# bidirectional LSTM on one-hot characters
import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
text = torch.randint(0, 12, (2000,))


class Char(nn.Module):
    def __init__(s, bi=True):
        super().__init__()
        s.rnn = nn.LSTM(12, 24, batch_first=True, bidirectional=bi)
        s.out = nn.Linear(48 if bi else 24, 12)

    def forward(s, x):
        return s.out(s.rnn(x)[0])


import sys

m = Char()
o = torch.optim.Adam(m.parameters(), 1e-3)
for i in range(60):
    idx = torch.randint(0, 2000 - 21, (8,))
    c = torch.stack([text[j : j + 21] for j in idx])
    x = F.one_hot(c[:, :-1], 12).float()
    loss = F.cross_entropy(m(x).transpose(1, 2), c[:, 1:])
    o.zero_grad()
    loss.backward()
    o.step()
