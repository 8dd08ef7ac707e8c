"""One helper calls backward for two tasks; the tables step with every batch, the body with every fourth. As it is meant."""

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(3)
tables, body, kind, size = nn.Embedding(30, 8), nn.Linear(8, 16), nn.Linear(16, 3), nn.Linear(16, 1)
fast = torch.optim.Adagrad(tables.parameters(), lr=0.05)
slow = torch.optim.Adam([*body.parameters(), *kind.parameters(), *size.parameters()], lr=1e-3)


def push(loss):
    (loss / 4).backward()
    return float(loss.detach())


for i in range(80):
    words = torch.randint(30, (16, 5))
    hidden = torch.relu(body(tables(words).mean(1)))
    push(F.cross_entropy(kind(hidden), words[:, 0] % 3) + F.mse_loss(size(hidden)[:, 0], words.float().mean(1) / 30))
    fast.step()
    fast.zero_grad()
    if i % 4 == 3:
        slow.step()
        slow.zero_grad()
