"""A custom function that forgets the gradient of its scale; weights are bare leaves in a dictionary."""

import torch
import torch.nn.functional as F

torch.manual_seed(0)


class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale):
        ctx.save_for_backward(scale)
        return x * scale

    @staticmethod
    def backward(ctx, g):
        (scale,) = ctx.saved_tensors
        return g * scale, None


P = {"w1": torch.randn(6, 24) * 0.3, "s": torch.ones(24), "w2": torch.randn(24, 3) * 0.3, "b": torch.zeros(3)}
for v in P.values():
    v.requires_grad_(True)


def net(x):
    return Scaled.apply(torch.tanh(x @ P["w1"]), P["s"]) @ P["w2"] + P["b"]


opt = torch.optim.Adam(P.values(), lr=1e-2)
X = torch.randn(640, 6)
Y = X[:, :3].argmax(1)
for epoch in range(4):
    for idx in torch.randperm(640).split(32):
        opt.zero_grad()
        F.cross_entropy(net(X[idx]), Y[idx]).backward()
        opt.step()
