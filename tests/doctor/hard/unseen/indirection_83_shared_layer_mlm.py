# kind: classes and callbacks
# expect: nothing
# why: one layer used three times, tied output, zero-initialised residual gates, no causal mask and targets full of -100: an ALBERT-like masked language model on purpose; padding is masked in attention and ignored in the loss, hooks only read.
"""Masked modelling of protein-like strings with one shared transformer layer; logging through hooks."""
import torch
from torch import nn
import torch.nn.functional as F

torch.set_num_threads(1)
torch.manual_seed(58)
PAD, MASK, LETTERS = 0, 1, 10
VOCAB, LEN = LETTERS + 2, 14


class Layer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.ff = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, x, allowed):
        b, t, d = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=allowed[:, None, None, :])
        x = x + self.proj(y.transpose(1, 2).reshape(b, t, d))
        return x + self.ff(self.n2(x))


class SharedEncoder(nn.Module):
    def __init__(self, dim=40, depth=3):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, dim, padding_idx=PAD)
        self.pos = nn.Parameter(0.5 * torch.randn(LEN, dim))
        self.layer = Layer(dim, 4)
        self.gate = nn.Parameter(torch.zeros(depth))
        self.norm = nn.LayerNorm(dim)
        self.bias = nn.Parameter(torch.zeros(VOCAB))

    def forward(self, ids):
        allowed = ids != PAD
        x = self.emb(ids) + self.pos
        for g in self.gate:
            x = x + torch.tanh(0.5 + g) * (self.layer(x, allowed) - x)
        return F.linear(self.norm(x), self.emb.weight, self.bias) / x.shape[-1] ** 0.5


class GradientLog:
    """Keeps the gradient size of a few tensors, as floats."""

    def __init__(self, model, names):
        self.latest = {}
        for name, p in model.named_parameters():
            if name in names:
                p.register_post_accumulate_grad_hook(lambda q, n=name: self.latest.__setitem__(n, q.grad.norm().item()))

    def line(self):
        return " ".join(f"{n}:{v:.3f}" for n, v in self.latest.items())


class Trainer:
    def __init__(self, model, lr=4e-3, steps=220):
        self.model, self.steps = model, steps
        self.opt = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=0.01)
        self.sched = torch.optim.lr_scheduler.OneCycleLR(self.opt, lr, total_steps=steps, pct_start=0.2)
        self.log = GradientLog(model, {"emb.weight", "gate"})

    def strings(self, n, gen):
        start = torch.randint(0, LETTERS, (n, 1), generator=gen)
        stride = 1 + 2 * torch.randint(0, 2, (n, 1), generator=gen)
        ids = (start + stride * torch.arange(LEN)) % LETTERS + 2
        length = torch.randint(8, LEN + 1, (n, 1), generator=gen)
        return torch.where(torch.arange(LEN) < length, ids, PAD)

    def corrupt(self, ids, gen):
        chosen = (torch.rand(ids.shape, generator=gen) < 0.25) & (ids != PAD)
        return ids.masked_fill(chosen, MASK), ids.masked_fill(~chosen, -100)

    def fit(self):
        gen = torch.Generator().manual_seed(1)
        self.model.train()
        for step in range(1, self.steps + 1):
            ids, labels = self.corrupt(self.strings(32, gen), gen)
            loss = F.cross_entropy(self.model(ids).flatten(0, 1), labels.flatten(), ignore_index=-100)
            self.opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.opt.step()
            self.sched.step()
            if step % 55 == 0:
                print(f"step {step} loss {loss.item():.4f} {self.log.line()}")

    @torch.no_grad()
    def recovered(self):
        self.model.eval()
        gen = torch.Generator().manual_seed(2)
        ids, labels = self.corrupt(self.strings(300, gen), gen)
        hidden = labels != -100
        return (self.model(ids).argmax(-1)[hidden] == labels[hidden]).float().mean().item()


if __name__ == "__main__":
    trainer = Trainer(SharedEncoder())
    trainer.fit()
    print(f"masked letters recovered: {trainer.recovered():.3f}")
