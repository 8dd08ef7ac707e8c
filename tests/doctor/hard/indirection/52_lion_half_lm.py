# kind: behind indirection
# expect: update-below-precision
# why: The weights are bfloat16 and the own Lion optimizer casts its update to the weight's dtype and adds it in place;
#      at lr 1e-4 the sign step is below half a unit in the last place of most weights and is rounded away.
import math
import types

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(1)

opts = types.SimpleNamespace(seed=12, vocab=24, length=24, dim=48, heads=4, depth=2, lr=1e-4, epochs=6, batch=32)


class Lion(torch.optim.Optimizer):
    """Chen et al. 2023; the momentum is kept in single precision."""

    def __init__(self, params, lr, betas=(0.9, 0.99), weight_decay=0.0):
        super().__init__(params, dict(lr=lr, betas=betas, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self, closure=None):
        for grp in self.param_groups:
            for p in filter(lambda q: q.grad is not None, grp["params"]):
                self._one(p, grp["lr"], *grp["betas"], grp["weight_decay"])

    def _one(self, p, lr, b1, b2, wd):
        st = self.state[p]
        if not st:
            st["mom"] = torch.zeros_like(p, dtype=torch.float32)
        g = p.grad.float()
        move = torch.sign(b1 * st["mom"] + (1 - b1) * g) + wd * p.float()
        p.add_(move.to(p.dtype), alpha=-lr)
        st["mom"].mul_(b2).add_(g, alpha=1 - b2)


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.proj = nn.Linear(dim, 3 * dim, bias=False), nn.Linear(dim, dim)
        self.up, self.down = nn.Linear(dim, 2 * dim), nn.Linear(2 * dim, dim)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        att = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(att.transpose(1, 2).reshape(b, t, d))
        return x + self.down(F.gelu(self.up(self.n2(x))))


class LM(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.tok, self.pos = nn.Embedding(o.vocab, o.dim), nn.Embedding(o.length, o.dim)
        self.blocks = nn.ModuleList(Block(o.dim, o.heads) for _ in range(o.depth))
        self.norm, self.out = nn.LayerNorm(o.dim), nn.Linear(o.dim, o.vocab)

    def forward(self, ids):
        x = self.tok(ids) + self.pos.weight[: ids.shape[1]]
        for b in self.blocks:
            x = b(x)
        return self.out(self.norm(x)).float()


def sentences(n, o, seed):
    """Second-order Markov chains of symbols."""
    g = torch.Generator().manual_seed(seed)
    table = torch.softmax(3 * torch.randn(o.vocab, o.vocab, generator=torch.Generator().manual_seed(3)), 1)
    seq = [torch.randint(0, o.vocab, (n,), generator=g) for _ in range(2)]
    while len(seq) < o.length + 1:
        mix = 0.8 * table[seq[-1]] + 0.2 * table[seq[-2]]
        seq.append(torch.multinomial(mix, 1, generator=g).squeeze(1))
    return torch.stack(seq, 1)


def objective(model, batch):
    return F.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())


def main(o):
    torch.manual_seed(o.seed)
    train, held = sentences(960, o, 1), sentences(192, o, 2)
    model = LM(o).to(torch.bfloat16)
    opt = Lion(model.parameters(), lr=o.lr, weight_decay=0.01)
    for epoch in range(o.epochs):
        model.train()
        total = 0.0
        for idx in torch.randperm(len(train)).split(o.batch):
            loss = objective(model, train[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(idx)
        model.eval()
        with torch.no_grad():
            v = objective(model, held).item()
        print(f"epoch {epoch} train {total / len(train):.4f} valid {v:.4f} perplexity {math.exp(v):.2f}")


main(opts)
