# kind: in a second phase
# expect: update-below-precision
# why: for the second domain the whole model is cast to bfloat16 and trained there with a lr of 1e-5; nearly every update
#   is smaller than half a step of bfloat16 and is lost in rounding. The first phase is float32.
import types

import torch
import torch.nn as nn
import torch.nn.functional as F

cfg = types.SimpleNamespace(
    seed=55, batch=64, dim=32, left=24, right=36, latent=6,
    pretrain=types.SimpleNamespace(steps=200, lr=1e-3, dtype=torch.float32),
    adapt=types.SimpleNamespace(steps=200, lr=1e-5, dtype=torch.bfloat16),
)


class Tower(nn.Module):
    def __init__(self, inputs, dim):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(inputs, 96), nn.GELU(), nn.Linear(96, 96), nn.GELU(), nn.Linear(96, dim))

    def forward(self, x):
        return F.normalize(self.net(x), dim=-1)


class TwoTowers(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.a, self.b = Tower(cfg.left, cfg.dim), Tower(cfg.right, cfg.dim)
        self.scale = nn.Parameter(torch.tensor(2.0))

    def forward(self, left, right):
        return self.scale.exp() * self.a(left) @ self.b(right).T


def symmetric_nce(scores):
    scores = scores.float()
    target = torch.arange(len(scores))
    return (F.cross_entropy(scores, target) + F.cross_entropy(scores.T, target)) / 2


def make_domain(cfg, seed, turn):
    g = torch.Generator().manual_seed(1)
    to_left = torch.randn(cfg.latent, cfg.left, generator=g)
    to_right = torch.randn(cfg.latent, cfg.right, generator=g)
    to_right = to_right + turn * torch.randn(cfg.latent, cfg.right, generator=g)
    g = torch.Generator().manual_seed(seed)
    z = torch.randn(4096 + 512, cfg.latent, generator=g)
    views = []
    for m in (to_left, to_right):
        v = torch.tanh(z @ m / 2) + 0.2 * torch.randn(len(z), m.shape[1], generator=g)
        views.append((v - v[:4096].mean(0)) / v[:4096].std(0))
    return (views[0][:4096], views[1][:4096]), (views[0][4096:], views[1][4096:])


def retrieval(model, pair, dtype):
    model.eval()
    with torch.no_grad():
        scores = model(pair[0].to(dtype), pair[1].to(dtype)).float()
        hit = (scores.argmax(1) == torch.arange(len(scores))).float().mean().item()
    model.train()
    return hit


def phase(name, model, part, train, valid, cfg):
    model.to(part.dtype)
    model.train()
    opt = torch.optim.AdamW(model.parameters(), lr=part.lr, weight_decay=0.0)
    left, right = (t.to(part.dtype) for t in train)
    print(f"{name}: start, recall@1 {retrieval(model, valid, part.dtype):.3f}")
    queue = []
    for step in range(1, part.steps + 1):
        if not queue:
            queue = list(torch.randperm(len(left)).split(cfg.batch))
        rows = queue.pop()
        loss = symmetric_nce(model(left[rows], right[rows]))
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 50 == 0:
            print(f"{name}: step {step}  loss {loss.item():.4f}  recall@1 {retrieval(model, valid, part.dtype):.3f}")


def main():
    torch.set_num_threads(1)
    torch.manual_seed(cfg.seed)
    model = TwoTowers(cfg)
    train, valid = make_domain(cfg, seed=10, turn=0.0)
    phase("pretrain", model, cfg.pretrain, train, valid, cfg)
    train, valid = make_domain(cfg, seed=20, turn=0.7)
    phase("adapt", model, cfg.adapt, train, valid, cfg)


if __name__ == "__main__":
    main()
