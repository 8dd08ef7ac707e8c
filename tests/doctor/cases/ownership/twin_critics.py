"""Two critics as dictionaries of tensors, the second a copy of the first: equal at first, and trained on samples of their own."""

import torch


def critic():
    return {"a": torch.randn(5, 32) * 0.4, "b": torch.zeros(32), "c": torch.randn(32, 1) * 0.2}


def value(weights, x):
    return torch.tanh(x @ weights["a"] + weights["b"]) @ weights["c"]


torch.manual_seed(0)
first = {name: each.requires_grad_() for name, each in critic().items()}
second = {name: each.detach().clone().requires_grad_() for name, each in first.items()}
for step in range(80):
    x, noise = torch.randn(64, 5), torch.randn(2, 64, 1)
    wanted = x[:, :1] * x[:, 1:2] + 0.3 * noise
    loss = sum((value(w, x) - t).pow(2).mean() for w, t in zip((first, second), wanted, strict=True))
    leaves = [*first.values(), *second.values()]
    for leaf, grad in zip(leaves, torch.autograd.grad(loss, leaves), strict=True):
        leaf.data.sub_(grad, alpha=0.05)
print(loss.item())
