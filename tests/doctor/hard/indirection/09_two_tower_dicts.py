# kind: behind indirection
# expect: parameter-not-optimized
# why: the learnable log-temperature lives in the partial that makes the loss; it gets a gradient in every backward, but
#      the optimizer is made of the two towers only, so it stays at its initial value for ever.
"""Contrastive query/item matching; the towers are dictionaries of tensors, applied by functions."""

import argparse
import functools
import math
import torch
import torch.nn.functional as F


def make_tower(d, h, out):
    leaf = lambda a, b: (torch.randn(b, a) / math.sqrt(a)).requires_grad_()
    return {
        "w1": leaf(d, h),
        "b1": torch.zeros(h, requires_grad=True),
        "w2": leaf(h, out),
        "b2": torch.zeros(out, requires_grad=True),
    }


def apply_tower(p, x):
    h = F.gelu(F.linear(x, p["w1"], p["b1"]))
    return F.normalize(F.linear(h, p["w2"], p["b2"]), dim=-1)


def info_nce(q, k, *, log_scale):
    logits = log_scale.exp() * q @ k.t()
    labels = torch.arange(len(q))
    return 0.5 * (F.cross_entropy(logits, labels) + F.cross_entropy(logits.t(), labels))


def pairs(n, g, mixers):
    z = torch.randn(n, 10, generator=g)
    views = [torch.tanh(z @ m) + 0.2 * torch.randn(n, m.shape[1], generator=g) for m in mixers]
    return [(v - v.mean(0)) / v.std(0) for v in views]


@torch.no_grad()
def recall_at_1(towers, q, k):
    sim = apply_tower(towers["query"], q) @ apply_tower(towers["item"], k).t()
    return (sim.argmax(1) == torch.arange(len(q))).float().mean().item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=15)
    ap.add_argument("--batch", type=int, default=128)
    ap.add_argument("--init-scale", type=float, default=3.0)
    args = ap.parse_args()
    torch.manual_seed(4)
    torch.set_num_threads(1)
    g = torch.Generator().manual_seed(40)
    mixers = [torch.randn(10, 24, generator=g), torch.randn(10, 32, generator=g)]
    q, k = pairs(5120, g, mixers)
    qv, kv = pairs(512, g, mixers)
    towers = {"query": make_tower(24, 96, 32), "item": make_tower(32, 96, 32)}
    objective = functools.partial(info_nce, log_scale=torch.tensor(math.log(args.init_scale), requires_grad=True))
    opt = torch.optim.Adam([t for tower in towers.values() for t in tower.values()], lr=2e-3)
    for epoch in range(args.epochs):
        total = 0.0
        for idx in torch.randperm(len(q)).split(args.batch):
            opt.zero_grad()
            loss = objective(apply_tower(towers["query"], q[idx]), apply_tower(towers["item"], k[idx]))
            loss.backward()
            opt.step()
            total += loss.item() * len(idx)
        scale = objective.keywords["log_scale"].exp().item()
        print(f"epoch {epoch:2d} loss {total / len(q):.4f} scale {scale:.3f} valid recall@1 {recall_at_1(towers, qv, kv):.3f}")


if __name__ == "__main__":
    main()
