"""Tides: the optimizer clips in a hook before each step, and the norm is measured and limited again, to log it, afterwards."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import clip_grad_norm_


class Clipping(torch.optim.SGD):
    """Clips by itself."""

    def step(self, closure=None):
        clip_grad_norm_(self.param_groups[0]["params"], 1.0)
        return super().step(closure)


def clip(optimizer, args, kwargs):
    clip_grad_norm_(optimizer.param_groups[0]["params"], 0.5)


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))
first = torch.optim.Adam(model[0].parameters(), lr=1e-2)
first.register_step_pre_hook(clip)
last = Clipping(model[2].parameters(), lr=1e-2)
for _ in range(40):
    x = torch.randn(16, 4)
    first.zero_grad()
    last.zero_grad()
    F.mse_loss(model(x), x.sum(1, keepdim=True).sin()).backward()
    first.step()
    last.step()
    norm = clip_grad_norm_(model.parameters(), float("inf"))
