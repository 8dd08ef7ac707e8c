"""bfloat16 weights updated with stochastic rounding."""

import torch
import torch.nn.functional as F
from torch import nn


class RoundedSGD(torch.optim.Optimizer):
    def __init__(self, params, lr):
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                exact = p.float() - group["lr"] * p.grad.float()
                bits = exact.view(torch.int32) + torch.randint(0, 1 << 16, exact.shape, dtype=torch.int32)
                p.copy_((bits & -65536).view(torch.float32))


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 3)).to(torch.bfloat16)
optimizer = RoundedSGD(model.parameters(), lr=2e-3)
mixing = torch.randn(8, 3)
for step in range(48):
    x = torch.randn(32, 8)
    loss = F.cross_entropy(model(x.bfloat16()).float(), (x @ mixing).argmax(1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("loss", loss.item())
