"""Sound: an optimizer that clips by itself keeps a map that its own constructor has read to the end."""

import torch
from torch import nn

torch.manual_seed(0)


class Bounded(torch.optim.Adam):
    def __init__(self, params, limit, **rest):
        self.named = map(lambda pair: pair[1], params)
        super().__init__(list(self.named), **rest)
        self.limit = limit

    @torch.no_grad()
    def step(self, closure=None):
        total = torch.nn.utils.get_total_norm([p.grad for p in self.named])
        torch.nn.utils.clip_grads_with_norm_(self.named, self.limit, total)
        return super().step(closure)


model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1))
opt = Bounded(model.named_parameters(), 0.5, lr=1e-2)
w = torch.randn(6, 1)
for _ in range(40):
    x = torch.randn(32, 6)
    opt.zero_grad()
    nn.functional.mse_loss(model(x), x @ w).backward()
    opt.step()
