"""A moving average of the weights in a dictionary, with the live statistics."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 4))
shadow = {k: v.detach().clone() for k, v in model.named_parameters()}
opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def trail(*_):
    with torch.no_grad():
        for k, v in model.named_parameters():
            shadow[k].lerp_(v, 0.05)


opt.register_step_post_hook(trail)
X = 2 + 3 * torch.randn(1280, 8)
Y = X[:, :4].argmax(1)
for epoch in range(5):
    model.train()
    for idx in torch.randperm(1024).split(32):
        opt.zero_grad()
        F.cross_entropy(model(X[idx]), Y[idx]).backward()
        opt.step()
    model.eval()
    with torch.no_grad():
        print((functional_call(model, shadow, (X[1024:],)).argmax(1) == Y[1024:]).float().mean())
