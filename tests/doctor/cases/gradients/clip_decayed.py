"""Rain: one optimizer decays its weights and clips before it moves them; another clips in a hook before its step."""

import torch
from torch import nn
from torch.nn.utils import clip_grad_norm_, clip_grads_with_norm_, get_total_norm

torch.manual_seed(0)


class Decayed(torch.optim.Optimizer):
    """Decays first, then clips and moves."""

    def __init__(self, params, lr):
        super().__init__(params, dict(lr=lr))

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                p.mul_(1 - 1e-3 * group["lr"])
                clip_grad_norm_(p, 1.0)
                p.sub_(p.grad, alpha=group["lr"])


class Guard:
    def __init__(self, params, limit):
        self.params, self.limit = list(params), limit

    def __call__(self, opt, args, kwargs):
        clip_grads_with_norm_(self.params, self.limit, get_total_norm([p.grad for p in self.params]))


model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1))
a, b = Decayed(model[0].parameters(), lr=0.05), torch.optim.Adam(model[2].parameters(), lr=1e-2)
b.register_step_pre_hook(Guard(model[2].parameters(), 0.3))
w = torch.randn(6, 1)
for _ in range(40):
    x = torch.randn(32, 6)
    for o in (a, b):
        o.zero_grad()
    nn.functional.mse_loss(model(x), x @ w).backward()
    for o in (a, b):
        o.step()
