# kind: behind indirection
# expect: future-leaks
# why: The "conv" mixer is F.conv1d with symmetric padding (kernel//2 on both sides), so in this next-token model position t reads token t+1, its own target; the loss falls to 0.07 where 1.57 is attainable from the past.
"""Next-token model over a noisy Markov source with pluggable sequence mixers."""
import functools
import math

import torch
from torch import nn
import torch.nn.functional as F

torch.set_num_threads(1)
torch.manual_seed(21)

VOCAB, SEQ, DIM = 16, 32, 32
MIXERS = {}


def mixer(name, **options):
    def register(fn):
        MIXERS[name] = functools.partial(fn, **options)
        return fn
    return register


@mixer("conv", kernel=5)
def conv_mixer(kernel):
    weight = nn.Parameter(torch.randn(DIM, 1, kernel) / math.sqrt(kernel))
    apply = functools.partial(F.conv1d, padding=kernel // 2, groups=DIM)
    return weight, lambda h, w: apply(h.transpose(1, 2), w).transpose(1, 2)


@mixer("decay", horizon=SEQ)
def decay_mixer(horizon):
    rate = nn.Parameter(torch.full((DIM,), -1.0))
    gap = torch.arange(horizon)[:, None] - torch.arange(horizon)[None]
    past = (gap >= 0).float()

    def run(h, r):
        t = h.shape[1]
        kernel = torch.exp(-F.softplus(r)[:, None, None] * gap[:t, :t].clamp(min=0)) * past[:t, :t]
        return torch.einsum("dts,bsd->btd", kernel, h)
    return rate, run


class Block(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.norm = nn.LayerNorm(DIM)
        self.weight, self.run = MIXERS[kind]()
        self.mlp = nn.Sequential(nn.LayerNorm(DIM), nn.Linear(DIM, 2 * DIM), nn.GELU(),
                                 nn.Linear(2 * DIM, DIM))

    def forward(self, h):
        h = h + self.run(self.norm(h), self.weight)
        return h + self.mlp(h)


class TokenModel(nn.Module):
    def __init__(self, kinds=("decay", "conv")):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, DIM)
        self.blocks = nn.Sequential(*[Block(k) for k in kinds])
        self.out = nn.Linear(DIM, VOCAB)

    def forward(self, tokens):
        return self.out(self.blocks(self.embed(tokens)))


def sample_source(n, length, table, g):
    seq = torch.randint(VOCAB, (n, 1), generator=g)
    for _ in range(length - 1):
        nxt = torch.multinomial(table[seq[:, -1]], 1, generator=g)
        seq = torch.cat([seq, nxt], 1)
    return seq


@torch.no_grad()
def continuation_nll(model, table, prompts, steps=8):
    model.eval()
    seq, total = prompts, 0.0
    for _ in range(steps):
        nxt = model(seq)[:, -1].argmax(-1, keepdim=True)
        total -= table[seq[:, -1], nxt[:, 0]].log().mean().item()
        seq = torch.cat([seq, nxt], 1)
    model.train()
    return total / steps


def main():
    g = torch.Generator().manual_seed(4)
    table = torch.softmax(2.0 * torch.randn(VOCAB, VOCAB, generator=g), 1)
    data = sample_source(2048, SEQ + 1, table, g)
    model = TokenModel()
    opt = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for step in range(240):
        batch = data[torch.randint(len(data), (32,), generator=g)]
        logits = model(batch[:, :-1])
        loss = F.cross_entropy(logits.reshape(-1, VOCAB), batch[:, 1:].reshape(-1))
        opt.zero_grad()
        loss.backward()
        opt.step()
        if (step + 1) % 60 == 0:
            print(f"step {step + 1} loss {loss.item():.3f} "
                  f"continuation nll {continuation_nll(model, table, data[:128, :16]):.3f}")


if __name__ == "__main__":
    main()
