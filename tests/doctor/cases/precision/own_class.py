"""An optimizer of one's own, no subclass of torch's, that adds tiny steps to bfloat16 weights."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)


class Momentum:
    def __init__(self, params, lr, beta=0.9):
        self.params = [p for p in params if p.requires_grad]
        self.lr, self.beta = lr, beta
        self.buf = [torch.zeros_like(p) for p in self.params]

    def clear(self):
        for p in self.params:
            p.grad = None

    @torch.no_grad()
    def update(self):
        for p, m in zip(self.params, self.buf):
            m.mul_(self.beta).add_(p.grad, alpha=1 - self.beta)
            p.add_(m, alpha=-self.lr)


model = nn.Sequential(nn.Linear(8, 48), nn.Tanh(), nn.Linear(48, 4)).to(torch.bfloat16)
opt = Momentum(model.parameters(), lr=1e-4)
X = torch.randn(1280, 8)
Y = X[:, :4].argmax(1)
for epoch in range(4):
    for idx in torch.randperm(1280).split(32):
        opt.clear()
        F.cross_entropy(model(X[idx].bfloat16()).float(), Y[idx]).backward()
        opt.update()
