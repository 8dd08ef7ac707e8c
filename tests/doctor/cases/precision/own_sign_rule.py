"""A sign rule as a closure over a dictionary of bfloat16 leaves; no modules at all."""

import torch
import torch.nn.functional as F

torch.manual_seed(0)
P = {"a": torch.randn(8, 64) * 0.5, "c": torch.zeros(64), "b": torch.randn(64, 4) * 0.5}
P = {k: v.to(torch.bfloat16).requires_grad_() for k, v in P.items()}


def lion(lr, beta=0.9):
    m = {k: torch.zeros_like(v) for k, v in P.items()}

    def update():
        with torch.no_grad():
            for k, p in P.items():
                m[k].mul_(beta).add_(p.grad, alpha=1 - beta)
                p.add_(m[k].sign(), alpha=-lr)
                p.grad = None

    return update


update = lion(2e-5)
X = torch.randn(1280, 8)
Y = X[:, :4].argmax(1)
for epoch in range(4):
    for idx in torch.randperm(1280).split(32):
        h = torch.tanh(X[idx].bfloat16() @ P["a"] + P["c"])
        F.cross_entropy((h @ P["b"]).float(), Y[idx]).backward()
        update()
