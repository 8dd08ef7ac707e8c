# kind: behind indirection
# expect: future-leaks
# why: the causal mask made by the registry's partial uses triu(diagonal=2), so every position may attend to the next token, which is exactly its target; training and validation loss fall far below the true entropy of the source.
"""Small attention language model on a Markov source; attention variants come from a registry."""
import functools
import math

import torch
from torch import nn
import torch.nn.functional as F

torch.set_num_threads(1)
torch.manual_seed(8)

VOCAB, CONTEXT, WIDTH, HEADS = 12, 24, 32, 4
ATTENTION = {}


def register(name, **kwargs):
    def wrap(fn):
        ATTENTION[name] = functools.partial(fn, **kwargs)
        return fn
    return wrap


@functools.lru_cache(maxsize=None)
def band_mask(t, offset):
    return torch.ones(t, t, dtype=torch.bool).triu(diagonal=offset)


@register("full", offset=None)
@register("causal", offset=2)
def attend(q, k, v, offset):
    score = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    if offset is not None:
        score = score.masked_fill(band_mask(q.shape[-2], offset), float("-inf"))
    return score.softmax(-1) @ v


class Block(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.kind = kind
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH))

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = (z.view(b, t, HEADS, -1).transpose(1, 2) for z in self.qkv(self.norm1(x)).chunk(3, -1))
        mixed = ATTENTION[self.kind](q, k, v).transpose(1, 2).reshape(b, t, WIDTH)
        x = x + self.out(mixed)
        return x + self.mlp(self.norm2(x))


class LM(nn.Module):
    def __init__(self, layers=2, kind="causal"):
        super().__init__()
        self.tok, self.pos = nn.Embedding(VOCAB, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.Sequential(*[Block(kind) for _ in range(layers)])
        self.head = nn.Linear(WIDTH, VOCAB)

    def forward(self, ids):
        return self.head(self.blocks(self.tok(ids) + self.pos.weight[: ids.shape[1]]))


def sample_stream(n, table):
    ids = [0]
    for _ in range(n - 1):
        ids.append(int(torch.multinomial(table[ids[-1]], 1)))
    return torch.tensor(ids)


def batch(stream, size):
    start = torch.randint(len(stream) - CONTEXT - 1, (size,))
    rows = stream[start[:, None] + torch.arange(CONTEXT + 1)]
    return rows[:, :-1], rows[:, 1:]


def lm_loss(model, stream, size):
    x, y = batch(stream, size)
    return F.cross_entropy(model(x).flatten(0, 1), y.flatten())


def main():
    table = torch.softmax(1.5 * torch.randn(VOCAB, VOCAB), -1)
    train, valid = sample_stream(16000, table), sample_stream(4000, table)
    model = LM()
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3)
    for step in range(1, 301):
        loss = lm_loss(model, train, 32)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 75 == 0:
            model.eval()
            with torch.no_grad():
                val = lm_loss(model, valid, 128).item()
            model.train()
            print(f"step {step} loss {loss.item():.3f} valid {val:.3f}")


if __name__ == "__main__":
    main()
