# kind: behind indirection
# expect: nothing
# like: best-weights-aliased
# why: "best = params" keeps a reference without a copy, but every update makes new tensors (out-of-place functional
#      steps), so the kept dictionary is never written again and really holds the best epoch.
"""JAX-style training: torch.func gradients and an optimizer made of pure functions over dictionaries."""
import argparse
from functools import partial
import torch
from torch import nn
from torch.func import functional_call, grad_and_value
import torch.nn.functional as F


def momentum_sgd(lr, beta, decay):
    def init(params):
        return {k: torch.zeros_like(p) for k, p in params.items()}

    def update(params, grads, state):
        state = {k: beta * state[k] + grads[k] + decay * params[k] for k in params}
        return {k: params[k] - lr * state[k] for k in params}, state
    return init, update


def loss_fn(params, x, y, *, net):
    return F.cross_entropy(functional_call(net, params, (x,)), y)


@torch.no_grad()
def evaluate(params, x, y, *, net):
    net.eval()
    out = functional_call(net, params, (x,))
    return F.cross_entropy(out, y).item(), (out.argmax(1) == y).float().mean().item()


def spirals(n, g, arms=3):
    y = torch.randint(0, arms, (n,), generator=g)
    r = torch.rand(n, generator=g).sqrt()
    a = 4.0 * r + 6.2832 * y / arms + 0.45 * torch.randn(n, generator=g)
    return 1.8 * torch.stack([r * a.cos(), r * a.sin()], 1), y


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=20)
    ap.add_argument("--batch", type=int, default=64)
    args = ap.parse_args()
    torch.manual_seed(19)
    torch.set_num_threads(1)
    g = torch.Generator().manual_seed(190)
    x, y = spirals(3072, g)
    xv, yv = spirals(768, g)
    net = nn.Sequential(nn.Linear(2, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 3))
    params = {k: p.detach() for k, p in net.named_parameters()}
    init, update = momentum_sgd(lr=0.05, beta=0.9, decay=1e-4)
    state = init(params)
    step = grad_and_value(partial(loss_fn, net=net))
    score = partial(evaluate, net=net)
    best, best_loss, best_epoch = params, float("inf"), -1
    for epoch in range(args.epochs):
        net.train()
        total = 0.0
        for idx in torch.randperm(len(x)).split(args.batch):
            grads, loss = step(params, x[idx], y[idx])
            params, state = update(params, grads, state)
            total += loss.item() * len(idx)
        vl, va = score(params, xv, yv)
        if vl < best_loss:
            best, best_loss, best_epoch = params, vl, epoch
        print(f"epoch {epoch:2d} train {total / len(x):.4f} valid {vl:.4f} acc {va:.3f}")
    vl, va = score(best, xv, yv)
    assert vl == best_loss
    print(f"best epoch {best_epoch}: valid {vl:.4f} acc {va:.3f}")


if __name__ == "__main__":
    main()
