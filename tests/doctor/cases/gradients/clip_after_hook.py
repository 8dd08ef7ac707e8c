"""Wind: a partial in a hook after each step clips what the step has used."""

import functools, torch
from torch import nn
from torch.nn.utils import clip_grad_norm_

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1))
params = list(model.parameters())
opt = torch.optim.SGD(params, lr=0.05)
limit = functools.partial(clip_grad_norm_, params, max_norm=0.1)
opt.register_step_post_hook(lambda *_: limit())
w = torch.randn(6, 1)
for _ in range(40):
    x = torch.randn(32, 6)
    opt.zero_grad()
    nn.functional.mse_loss(model(x), x @ w).backward()
    opt.step()
