# kind: several losses and optimizers
# expect: nothing
# like: optimizer-recreated
# why: Reptile wants a fresh inner optimizer (plain SGD, no state to lose) for every task; the outer Adam lives on and
#      is handed meta - fast as the gradient.
"""Reptile: a start from which the curve of any valve is learnt in few steps."""
import argparse
import copy

import torch
from torch import nn


def new_valve(gen, n=40):
    gain, knee, tilt = torch.rand(3, generator=gen)
    x = torch.rand(n, 1, generator=gen) * 2 - 1
    y = (0.5 + gain) * torch.tanh(3 * (x - (knee - 0.5))) + (tilt - 0.5) * x
    return x, y


class Curve(nn.Sequential):
    def __init__(self, width=48):
        super().__init__(nn.Linear(1, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 1))


def inner_loop(model, x, y, steps, lr):
    """Trains a copy on one valve and returns it with its first and last loss."""
    fast = copy.deepcopy(model)
    sgd = torch.optim.SGD(fast.parameters(), lr=lr)
    trace = []
    for _ in range(steps):
        rows = torch.randperm(len(x))[:20]
        loss = nn.functional.mse_loss(fast(x[rows]), y[rows])
        sgd.zero_grad()
        loss.backward()
        sgd.step()
        trace.append(loss.item())
    return fast, trace[0], trace[-1]


def few_shot_error(model, seed, steps, lr, valves=20):
    gen = torch.Generator().manual_seed(seed)
    total = 0.0
    for _ in range(valves):
        x, y = new_valve(gen, 40)
        fast, _, _ = inner_loop(model, x[:20], y[:20], steps, lr)
        fast.eval()
        with torch.no_grad():
            total += nn.functional.mse_loss(fast(x[20:]), y[20:]).item()
    return total / valves


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--valves", type=int, default=180)
    ap.add_argument("--inner-steps", type=int, default=5)
    ap.add_argument("--inner-lr", type=float, default=0.05)
    ap.add_argument("--outer-lr", type=float, default=2e-3)
    args = ap.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(31)
    gen = torch.Generator().manual_seed(310)

    meta = Curve()
    outer = torch.optim.Adam(meta.parameters(), lr=args.outer_lr)
    decay = torch.optim.lr_scheduler.LinearLR(outer, 1.0, 0.2, total_iters=args.valves)
    print(f"held-out valves before: {few_shot_error(meta, 999, args.inner_steps, args.inner_lr):.4f}")
    for i in range(1, args.valves + 1):
        x, y = new_valve(gen)
        fast, first, last = inner_loop(meta, x, y, args.inner_steps, args.inner_lr)
        outer.zero_grad()
        for slow, quick in zip(meta.parameters(), fast.parameters()):
            slow.grad = slow.detach() - quick.detach()
        outer.step()
        decay.step()
        if i % 90 == 0:
            err = few_shot_error(meta, 999, args.inner_steps, args.inner_lr)
            print(f"valve {i:4d}  inner {first:.4f} -> {last:.4f}  held-out {err:.4f}")


if __name__ == "__main__":
    main()
