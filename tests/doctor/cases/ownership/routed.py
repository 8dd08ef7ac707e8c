"""Every expert is chosen for some inputs only."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Routed(nn.Module):
    def __init__(self, experts=4, dim=6):
        super().__init__()
        self.gate = nn.Linear(dim, experts)
        self.experts = nn.ModuleList(nn.Linear(dim, 1) for _ in range(experts))

    def forward(self, x):
        p = self.gate(x).softmax(-1)
        best = p.argmax(-1)
        out = x.new_zeros(len(x))
        for k, expert in enumerate(self.experts):
            mine = (best == k).nonzero().squeeze(1)
            if len(mine):
                out = out.index_add(0, mine, expert(x[mine]).squeeze(-1) * p[mine, k])
        return out


torch.manual_seed(0)
model = Routed()
opt = torch.optim.Adam(model.parameters(), lr=1e-2)
x = torch.randn(240, 6)
y = x[:, 0].abs() + x[:, 1]
for epoch in range(4):
    for part in torch.randperm(240).split(24):
        opt.zero_grad()
        loss = F.mse_loss(model(x[part]), y[part])
        loss.backward()
        opt.step()
    print(epoch, loss.item())
