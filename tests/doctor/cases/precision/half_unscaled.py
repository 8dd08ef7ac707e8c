"""Two optimizers under one scaler; one of them is unscaled before all gradients are clipped together."""

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
x = torch.randn(256, 12)
y = (x[:, 0] > 0).long()
body, head = nn.Linear(12, 24), nn.Linear(24, 2)
first, second = torch.optim.SGD(body.parameters(), lr=0.05), torch.optim.SGD(head.parameters(), lr=0.05)
scaler = torch.amp.GradScaler("cpu", init_scale=512.0)

for _ in range(30):
    rows = torch.randint(256, (32,))
    first.zero_grad()
    second.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        out = head(torch.relu(body(x[rows])))
    scaler.scale(F.cross_entropy(out.float(), y[rows])).backward()
    scaler.unscale_(second)
    nn.utils.clip_grad_norm_([*body.parameters(), *head.parameters()], 1.0)
    scaler.step(first)
    scaler.step(second)
    scaler.update()
