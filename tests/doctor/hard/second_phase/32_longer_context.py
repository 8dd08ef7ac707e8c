# kind: in a second phase
# expect: future-leaks
# why: grow() pads the boolean "blocked" mask with False, so after the context was doubled every position may
#   attend to the new, later columns; with the first, short context the mask was right.
import math
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F


@dataclass
class Config:
    vocab: int = 24
    dim: int = 48
    heads: int = 4
    layers: int = 2
    context: int = 16
    batch: int = 48
    lr: float = 1.5e-3


class Attention(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.heads = cfg.heads
        self.qkv = nn.Linear(cfg.dim, 3 * cfg.dim)
        self.out = nn.Linear(cfg.dim, cfg.dim)

    def forward(self, x, blocked):
        b, t, d = x.shape
        q, k, v = (z.view(b, t, self.heads, -1).transpose(1, 2) for z in self.qkv(x).chunk(3, -1))
        att = q @ k.transpose(-2, -1) / math.sqrt(d // self.heads)
        att = att.masked_fill(blocked[:t, :t], float("-inf")).softmax(-1)
        return self.out((att @ v).transpose(1, 2).reshape(b, t, d))


class Block(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(cfg.dim), nn.LayerNorm(cfg.dim)
        self.att = Attention(cfg)
        self.mlp = nn.Sequential(nn.Linear(cfg.dim, 2 * cfg.dim), nn.GELU(), nn.Linear(2 * cfg.dim, cfg.dim))

    def forward(self, x, blocked):
        x = x + self.att(self.n1(x), blocked)
        return x + self.mlp(self.n2(x))


class CharLM(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.tok = nn.Embedding(cfg.vocab, cfg.dim)
        self.pos = nn.Parameter(0.1 * torch.randn(cfg.context, cfg.dim))
        self.blocks = nn.ModuleList(Block(cfg) for _ in range(cfg.layers))
        self.norm = nn.LayerNorm(cfg.dim)
        self.head = nn.Linear(cfg.dim, cfg.vocab)
        self.register_buffer("blocked", torch.ones(cfg.context, cfg.context).triu(1).bool())

    def forward(self, ids):
        x = self.tok(ids) + self.pos[: ids.shape[1]]
        for block in self.blocks:
            x = block(x, self.blocked)
        return self.head(self.norm(x))

    def grow(self, context):
        extra = context - self.pos.shape[0]
        fresh = 0.1 * torch.randn(extra, self.pos.shape[1])
        self.pos = nn.Parameter(torch.cat([self.pos.detach(), fresh]))
        self.blocked = F.pad(self.blocked, (0, extra, 0, extra))


def corpus(cfg, n):
    g = torch.Generator().manual_seed(3)
    table = torch.softmax(2.5 * torch.randn(cfg.vocab, cfg.vocab, generator=g), -1)
    state, out = torch.arange(64) % cfg.vocab, []
    for _ in range(n // 64):
        state = torch.multinomial(table[state], 1, generator=g).squeeze(1)
        out.append(state)
    return torch.stack(out, 1)          # 64 independent streams


def windows(streams, length, count, gen=None):
    row = torch.randint(streams.shape[0], (count,), generator=gen)
    col = torch.randint(streams.shape[1] - length - 1, (count,), generator=gen)
    idx = col[:, None] + torch.arange(length + 1)
    return streams[row[:, None], idx]


def run(model, cfg, train, valid, length, steps):
    opt = torch.optim.AdamW(model.parameters(), lr=cfg.lr, weight_decay=0.01)
    for step in range(1, steps + 1):
        model.train()
        seq = windows(train, length, cfg.batch)
        loss = F.cross_entropy(model(seq[:, :-1]).flatten(0, 1), seq[:, 1:].flatten())
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        if step % 50 == 0:
            model.eval()
            with torch.no_grad():
                seq = windows(valid, length, 256, torch.Generator().manual_seed(9))
                held = F.cross_entropy(model(seq[:, :-1]).flatten(0, 1), seq[:, 1:].flatten())
            print(f"context {length:3d}  step {step:3d}  train {loss.item():.3f}  valid {held.item():.3f}")


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.manual_seed(0)
    cfg = Config()
    streams = corpus(cfg, 64 * 1200)
    train, valid = streams[:, :1000], streams[:, 1000:]
    lm = CharLM(cfg)
    run(lm, cfg, train, valid, 16, 200)
    lm.grow(32)
    run(lm, cfg, train, valid, 32, 150)
