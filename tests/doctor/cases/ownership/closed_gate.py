"""Weights in a list, stepped by a plain function; the function with the quantised gate gives None for its threshold."""

import torch
import torch.nn.functional as F


class Gate(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, threshold):
        ctx.save_for_backward(x, threshold)
        return (x > threshold).to(x.dtype) * x

    @staticmethod
    def backward(ctx, g):
        x, threshold = ctx.saved_tensors
        return g * (x > threshold), None


def make():
    g = torch.Generator().manual_seed(0)
    w = [torch.randn(6, 24, generator=g) * 0.4, torch.zeros(24), torch.randn(24, 3, generator=g) * 0.4]
    return [t.requires_grad_() for t in w]


def update(leaves, lr):
    with torch.no_grad():
        for t in leaves:
            if t.grad is not None:
                t -= lr * t.grad
                t.grad = None


def main():
    torch.manual_seed(0)
    w1, threshold, w2 = leaves = make()
    X = torch.randn(640, 6)
    Y = X[:, :3].argmax(1)
    for epoch in range(4):
        for idx in torch.randperm(640).split(32):
            F.cross_entropy(Gate.apply(X[idx] @ w1, threshold) @ w2, Y[idx]).backward()
            update(leaves, 0.1)


main()
