"""bfloat16 weights and optimizers of one's own with the same small steps: one has masters, one what was left over from rounding."""

import torch
import torch.nn.functional as F
from torch import nn


class Masters(torch.optim.Optimizer):
    def __init__(self, params, lr):
        super().__init__(params, {"lr": lr})
        self.masters = [[p.detach().float() for p in group["params"]] for group in self.param_groups]

    @torch.no_grad()
    def step(self, closure=None):
        for group, masters in zip(self.param_groups, self.masters):
            for p, master in zip(group["params"], masters):
                if p.grad is not None:
                    master.sub_(p.grad.float(), alpha=group["lr"])
                    p.copy_(master)


class Kahan(torch.optim.Optimizer):
    def __init__(self, params, lr):
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                rest = self.state[p].setdefault("rest", torch.zeros_like(p))
                wanted = rest - group["lr"] * p.grad
                old = p.clone()
                p.add_(wanted)
                rest.copy_(wanted - (p - old))


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 3)).to(torch.bfloat16)
optimizers = [Masters(model[0].parameters(), lr=5e-5), Kahan(model[2].parameters(), lr=5e-5)]
mixing = torch.randn(8, 3)
for step in range(60):
    x = torch.randn(32, 8)
    loss = F.cross_entropy(model(x.bfloat16()).float(), (x @ mixing).argmax(1))
    for optimizer in optimizers:
        optimizer.zero_grad()
    loss.backward()
    for optimizer in optimizers:
        optimizer.step()
print("loss", loss.item())
