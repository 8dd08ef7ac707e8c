# kind: behind indirection
# expect: nothing
# why: Parameters are a dictionary of tensors, gradients come from torch.func and are assigned (not accumulated) to .grad, so no backward() and no zero_grad are needed; the own sign-momentum optimizer steps on fresh gradients and dropout is an explicit argument.
"""Functional training loop: dict parameters, torch.func gradients, own optimizer."""
from functools import partial

import torch
import torch.nn.functional as F
from torch.func import grad_and_value, vmap

torch.set_num_threads(1)
torch.manual_seed(13)


class Lion(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.98), decay=0.0):
        super().__init__(params, dict(lr=lr, betas=betas, decay=decay))

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            b1, b2 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state["m"] = torch.zeros_like(p)
                m = state["m"]
                update = (b1 * m + (1 - b1) * p.grad).sign_()
                p.mul_(1 - group["lr"] * group["decay"]).add_(update, alpha=-group["lr"])
                m.mul_(b2).add_(p.grad, alpha=1 - b2)


def init(sizes, g):
    params = {}
    for i, (a, b) in enumerate(zip(sizes[:-1], sizes[1:])):
        params[f"w{i}"] = (torch.randn(a, b, generator=g) / a ** 0.5).requires_grad_()
        params[f"b{i}"] = torch.zeros(b).requires_grad_()
    return params


def apply(params, x, mask=None):
    depth = len(params) // 2
    for i in range(depth):
        x = x @ params[f"w{i}"] + params[f"b{i}"]
        if i < depth - 1:
            x = F.silu(x)
            if mask is not None and i == 0:
                x = x * mask
    return x


def example_loss(params, x, y, mask):
    return F.cross_entropy(apply(params, x, mask), y)


def clipped_mean(grads, limit):
    norms = torch.stack([g.flatten(1).norm(dim=1) for g in grads.values()]).norm(dim=0)
    factor = (limit / (norms + 1e-6)).clamp(max=1.0)
    scale = lambda g: (g * factor.view(-1, *[1] * (g.dim() - 1))).mean(0)
    return {k: scale(g) for k, g in grads.items()}


def make_split(n, g, w):
    x = torch.randn(n, 12, generator=g)
    y = (torch.tanh(x @ w[0]) @ w[1]).argmax(1)
    return x, y


def main():
    g = torch.Generator().manual_seed(2)
    w = torch.randn(12, 24, generator=g), torch.randn(24, 5, generator=g)
    xt, yt = make_split(4096, g, w)
    xv, yv = make_split(1024, g, w)
    params = init((12, 64, 64, 5), g)
    opt = Lion(params.values(), lr=1e-3, decay=0.01)
    per_example = vmap(grad_and_value(example_loss), in_dims=(None, 0, 0, 0))
    keep = partial(torch.full, (64, 64), 0.9)

    for step in range(400):
        idx = torch.randint(len(xt), (64,), generator=g)
        mask = torch.bernoulli(keep(), generator=g) / 0.9
        frozen = {k: p.detach() for k, p in params.items()}
        grads, losses = per_example(frozen, xt[idx], yt[idx], mask)
        for name, grad in clipped_mean(grads, 4.0).items():
            params[name].grad = grad
        opt.step()
        if (step + 1) % 100 == 0:
            with torch.no_grad():
                acc = (apply(params, xv).argmax(1) == yv).float().mean().item()
            print(f"step {step + 1} loss {losses.mean().item():.3f} valid acc {acc:.3f}")


if __name__ == "__main__":
    main()
