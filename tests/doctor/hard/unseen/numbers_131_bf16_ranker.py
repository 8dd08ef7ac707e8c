# kind: numbers
# expect: update-below-precision
# why: The whole model is cast to bfloat16 and AdamW updates these weights directly at a learning rate of 5e-5, so most updates are
#      less than half the spacing of the numbers and are rounded away.
"""Score query/document pairs with a small mixer, kept in bfloat16 to save memory."""
import argparse
import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class RunConfig:
    tokens: int = 8
    dim: int = 32
    depth: int = 2
    steps: int = 500
    batch_size: int = 32
    lr: float = 5e-5
    warmup: int = 50
    eval_every: int = 100
    dtype: str = "bfloat16"
    seed: int = 29


class MixerBlock(nn.Module):
    def __init__(self, tokens, dim):
        super().__init__()
        self.norm_t, self.norm_c = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.across = nn.Sequential(nn.Linear(tokens, 2 * tokens), nn.GELU(), nn.Linear(2 * tokens, tokens))
        self.within = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, x):
        x = x + self.across(self.norm_t(x).transpose(1, 2)).transpose(1, 2)
        return x + self.within(self.norm_c(x))


class Ranker(nn.Module):
    def __init__(self, cfg, features):
        super().__init__()
        self.embed = nn.Linear(features, cfg.dim)
        self.blocks = nn.Sequential(*[MixerBlock(cfg.tokens, cfg.dim) for _ in range(cfg.depth)])
        self.norm = nn.LayerNorm(cfg.dim)
        self.score = nn.Linear(cfg.dim, 1)

    def forward(self, x):
        return self.score(self.norm(self.blocks(self.embed(x))).mean(1)).squeeze(-1)


class Pairs:
    """Pairs of documents with the sign of their true difference in relevance."""

    def __init__(self, n, cfg, features, weights, gen):
        self.a = torch.randn(n, cfg.tokens, features, generator=gen)
        self.b = torch.randn(n, cfg.tokens, features, generator=gen)
        gap = self.relevance(self.a, weights) - self.relevance(self.b, weights)
        self.better = (gap + 0.1 * torch.randn(n, generator=gen) > 0).float()

    @staticmethod
    def relevance(x, weights):
        return torch.tanh(x @ weights).mean(1)

    def batches(self, size, gen):
        while True:
            for idx in torch.randperm(len(self.a), generator=gen).split(size):
                if len(idx) == size:
                    yield self.a[idx], self.b[idx], self.better[idx]


def pair_loss(model, a, b, better, dtype):
    margin = model(a.to(dtype)).float() - model(b.to(dtype)).float()
    return F.binary_cross_entropy_with_logits(margin, better), margin


def lr_at(step, cfg):
    if step < cfg.warmup:
        return cfg.lr * (step + 1) / cfg.warmup
    return cfg.lr * (0.1 + 0.45 * (1 + math.cos(math.pi * (step - cfg.warmup) / (cfg.steps - cfg.warmup))))


@torch.no_grad()
def evaluate(model, pairs, dtype):
    model.eval()
    loss, margin = pair_loss(model, pairs.a, pairs.b, pairs.better, dtype)
    model.train()
    return loss.item(), ((margin > 0).float() == pairs.better).float().mean().item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--dtype", default=RunConfig.dtype)
    parser.add_argument("--steps", type=int, default=RunConfig.steps)
    args = parser.parse_args()
    cfg = RunConfig(dtype=args.dtype, steps=args.steps)
    torch.set_num_threads(1)
    torch.manual_seed(cfg.seed)
    gen = torch.Generator().manual_seed(cfg.seed)
    dtype, features = getattr(torch, cfg.dtype), 16
    weights = torch.randn(features, generator=gen) / 2
    train, valid = Pairs(8192, cfg, features, weights, gen), Pairs(512, cfg, features, weights, gen)
    model = Ranker(cfg, features).to(dtype)
    optimizer = torch.optim.AdamW(model.parameters(), lr=cfg.lr, weight_decay=0.01)
    stream = train.batches(cfg.batch_size, gen)
    for step in range(cfg.steps):
        for group in optimizer.param_groups:
            group["lr"] = lr_at(step, cfg)
        loss, _ = pair_loss(model, *next(stream), dtype)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if (step + 1) % cfg.eval_every == 0:
            valid_loss, accuracy = evaluate(model, valid, dtype)
            print(f"step {step + 1:4d}  train {loss.item():.4f}  valid {valid_loss:.4f}  accuracy {accuracy:.3f}")


if __name__ == "__main__":
    main()
