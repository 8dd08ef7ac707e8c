"""bfloat16 weights and a momentum of one's own, whose steps are far below what such weights can hold."""

import torch
import torch.nn.functional as F
from torch import nn


class Heavy(torch.optim.Optimizer):
    def __init__(self, params, lr):
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                speed = self.state[p].setdefault("speed", torch.zeros_like(p))
                p.sub_(speed.mul_(0.9).add_(p.grad), alpha=group["lr"])


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 3)).to(torch.bfloat16)
optimizer = Heavy(model.parameters(), lr=5e-5)
mixing = torch.randn(8, 3)
for step in range(60):
    x = torch.randn(32, 8)
    loss = F.cross_entropy(model(x.bfloat16()).float(), (x @ mixing).argmax(1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("loss", loss.item())
