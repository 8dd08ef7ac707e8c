# kind: numbers
# expect: nothing
# like: lambda-absolute-lr
# why: the lambda returns an absolute learning rate, but the optimizer's lr is 1.0, so the factor is the rate;
#   it is stepped per batch and its warm-up is counted in batches.
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(1)
torch.manual_seed(314)

V, D, HEADS, LAYERS, LEN = 20, 64, 4, 2, 20


def sentences(n, g):
    """Three tokens set a rule: each later token follows from the two before it and the first one."""
    s = torch.randint(0, V, (n, LEN + 1), generator=g)
    noise = torch.rand(n, LEN + 1, generator=g) < 0.05
    for t in range(2, LEN + 1):
        nxt = (s[:, t - 1] + 3 * (s[:, t - 2] % 2) + s[:, 0] % 3) % V
        s[:, t] = torch.where(noise[:, t], s[:, t], nxt)
    return s


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(D, 3 * D, bias=False)
        self.mix = nn.Linear(D, D)
        self.register_buffer("hidden", torch.ones(LEN, LEN, dtype=torch.bool).triu(1))

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, HEADS, D // HEADS).permute(2, 0, 3, 1, 4)
        score = (q @ k.transpose(-1, -2)) / math.sqrt(D // HEADS)
        score = score.masked_fill(self.hidden[:t, :t], -math.inf)
        score = score - score.amax(dim=-1, keepdim=True)
        weight = score.exp()
        weight = weight / weight.sum(dim=-1, keepdim=True)
        return self.mix((weight @ v).transpose(1, 2).reshape(b, t, D))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(D), nn.LayerNorm(D)
        self.att = Attention()
        self.ff = nn.Sequential(nn.Linear(D, 2 * D), nn.GELU(), nn.Linear(2 * D, D))

    def forward(self, x):
        x = x + self.att(self.n1(x))
        return x + self.ff(self.n2(x))


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok = nn.Embedding(V, D)
        self.pos = nn.Parameter(0.02 * torch.randn(LEN, D))
        self.blocks = nn.Sequential(*[Block() for _ in range(LAYERS)])
        self.norm = nn.LayerNorm(D)
        self.out = nn.Linear(D, V)

    def forward(self, s):
        x = self.tok(s) + self.pos[: s.shape[1]]
        return self.out(self.norm(self.blocks(x)))


def noam(step, warmup=50, scale=0.22):
    step = step + 1
    return scale * D ** -0.5 * min(step ** -0.5, step * warmup ** -1.5)


def next_token_loss(model, s):
    return F.cross_entropy(model(s[:, :-1]).flatten(0, 1), s[:, 1:].flatten())


gen = torch.Generator().manual_seed(2718)
corpus = sentences(1600, gen)
train, valid = corpus[:1344], corpus[1344:]
model = Decoder()
optimizer = torch.optim.Adam(model.parameters(), lr=1.0, betas=(0.9, 0.98), eps=1e-9)
scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, noam)

for epoch in range(6):
    model.train()
    total = 0.0
    for idx in torch.randperm(len(train), generator=gen).split(32):
        optimizer.zero_grad()
        loss = next_token_loss(model, train[idx])
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        total += loss.item() * len(idx)
    model.eval()
    with torch.no_grad():
        held = next_token_loss(model, valid).item()
    print(f"epoch {epoch} train {total / len(train):.4f} valid {held:.4f} lr {scheduler.get_last_lr()[0]:.5f}")
