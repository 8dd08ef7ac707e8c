"""A sign rule that keeps what rounding takes from bfloat16 weights, beside a momentum in float32."""

import torch
import torch.nn.functional as F
from torch import nn


class Kept(torch.optim.Optimizer):
    def __init__(self, params, lr, beta=0.9):
        super().__init__(params, {"lr": lr, "beta": beta})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                if not state:
                    state["speed"] = torch.zeros_like(p, dtype=torch.float32)
                    state["rest"] = torch.zeros_like(p, dtype=torch.float32)
                state["speed"].lerp_(p.grad.float(), 1 - group["beta"])
                wanted = p.float() + state["rest"] - group["lr"] * state["speed"].sign()
                p.copy_(wanted)
                state["rest"].copy_(wanted - p.float())


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(10, 48), nn.GELU(), nn.Linear(48, 32), nn.GELU(), nn.Linear(32, 5)).bfloat16()
optimizer = Kept(model.parameters(), lr=2e-5)
mixing = torch.randn(10, 5)
for step in range(90):
    x = torch.randn(256, 10)
    optimizer.zero_grad()
    loss = 0.05 * F.cross_entropy(model(x.bfloat16()).float(), (x @ mixing).argmax(1))
    loss.backward()
    optimizer.step()
print("loss", loss.item())
