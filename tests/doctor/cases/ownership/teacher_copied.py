"""A shadow of the weights that is put into the model by its memory for evaluation, and a target that is a copy."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 4))


class Ema:
    def __init__(self, model):
        self.model = model
        self.shadow = {k: v.detach().clone() for k, v in model.named_parameters()}

    @torch.no_grad()
    def update(self):
        for k, v in self.model.named_parameters():
            self.shadow[k].lerp_(v, 0.05)

    def apply(self):
        self.kept = {k: v.data for k, v in self.model.named_parameters()}
        for k, v in self.model.named_parameters():
            v.data = self.shadow[k]

    def restore(self):
        for k, v in self.model.named_parameters():
            v.data = self.kept[k]


ema = Ema(model)
teacher = {k: v.detach().clone() for k, v in model.named_parameters()}
opt = torch.optim.SGD(model.parameters(), lr=0.1)
X = torch.randn(1280, 8)
Y = X[:, :4].argmax(1)
for epoch in range(3):
    for idx in torch.randperm(1024).split(32):
        x = X[idx]
        opt.zero_grad()
        with torch.no_grad():
            soft = functional_call(model, teacher, (x + 0.1 * torch.randn_like(x),))
        out = model(x + 0.1 * torch.randn_like(x))
        (F.cross_entropy(out, Y[idx]) + F.mse_loss(out.softmax(1), soft.softmax(1))).backward()
        opt.step()
        ema.update()
    for k, v in model.named_parameters():
        teacher[k].copy_(v.detach())
    ema.apply()
    with torch.no_grad():
        for part in X[1024:].split(64):
            model(part)
    ema.restore()
