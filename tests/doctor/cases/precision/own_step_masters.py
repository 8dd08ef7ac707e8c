"""A sign rule as a class of one's own that keeps float32 masters of the bfloat16 weights."""

import torch
import torch.nn.functional as F
from torch import nn


class SignRule:
    def __init__(self, params, lr, beta=0.95):
        self.params, self.lr, self.beta = list(params), lr, beta
        self.masters = [p.detach().float().clone() for p in self.params]
        self.speed = [torch.zeros_like(p, dtype=torch.float32) for p in self.params]

    def zero_grad(self):
        for p in self.params:
            p.grad = None

    @torch.no_grad()
    def step(self):
        for p, v, w in zip(self.params, self.speed, self.masters, strict=True):
            v.mul_(self.beta).add_(p.grad.float(), alpha=1 - self.beta)
            w.sub_(self.lr * v.sign())
            p.copy_(w)


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(10, 48), nn.GELU(), nn.Linear(48, 32), nn.GELU(), nn.Linear(32, 5)).bfloat16()
rule = SignRule(model.parameters(), lr=5e-5)
mixing = torch.randn(10, 5)
for step in range(90):
    x = torch.randn(256, 10)
    rule.zero_grad()
    loss = 0.05 * F.cross_entropy(model(x.bfloat16()).float(), (x @ mixing).argmax(1))
    loss.backward()
    rule.step()
print("loss", loss.item())
