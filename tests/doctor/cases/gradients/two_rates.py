"""Two rates for one model through one helper: the heads step every fourth batch, the trunk at each."""

import torch
from torch import nn

torch.manual_seed(0)
trunk, heads = nn.Linear(6, 16), nn.ModuleList([nn.Linear(16, 1), nn.Sequential(nn.Linear(16, 8), nn.Tanh(), nn.Linear(8, 1))])
slow, fast = torch.optim.Adam(heads.parameters(), lr=1e-2), torch.optim.Adam(trunk.parameters(), lr=1e-2)
w = torch.randn(6, 2)


def push(loss, *opts):
    loss.backward()
    for o in opts:
        o.step()
        o.zero_grad()


for i in range(200):
    x = torch.randn(32, 6)
    k = i % 2
    loss = nn.functional.mse_loss(heads[k](trunk(x).tanh()), x @ w[:, k : k + 1]) / 2
    push(loss, *((fast, slow) if i % 4 == 3 else (fast,)))
