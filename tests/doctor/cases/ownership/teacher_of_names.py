"""The teacher runs through functional_call on a dictionary that holds the student's own tensors."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 4))
teacher = {k: v.detach() for k, v in model.named_parameters()}
opt = torch.optim.SGD(model.parameters(), lr=0.1)


def trail(*_):
    with torch.no_grad():
        for k, v in model.named_parameters():
            teacher[k].mul_(0.99).add_(v, alpha=0.01)


opt.register_step_post_hook(trail)
X = torch.randn(1280, 8)
Y = X[:, :4].argmax(1)
for epoch in range(3):
    for idx in torch.randperm(1280).split(32):
        x = X[idx]
        opt.zero_grad()
        with torch.no_grad():
            soft = functional_call(model, teacher, (x + 0.1 * torch.randn_like(x),))
        out = model(x + 0.1 * torch.randn_like(x))
        (F.cross_entropy(out, Y[idx]) + F.mse_loss(out.softmax(1), soft.softmax(1))).backward()
        opt.step()
