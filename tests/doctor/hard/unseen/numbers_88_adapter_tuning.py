# kind: numbers
# expect: frozen-parameter-moves
# also: dead-parameter
# why: The own optimizer decays every parameter of the group before it looks at gradients, so the frozen base weights shrink.
"""Pretrain a small transformer language model, freeze it and tune low-rank adapters on another source."""
from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F


@dataclass
class Args:
    vocab: int = 20
    length: int = 24
    dim: int = 32
    heads: int = 4
    layers: int = 2
    rank: int = 4
    batch: int = 32
    pretrain_steps: int = 200
    tune_steps: int = 300
    seed: int = 19


class DecoupledAdam(torch.optim.Optimizer):
    """Adam with decoupled decay; the decay of a group runs as one multi-tensor operation."""

    def __init__(self, params: Iterable[nn.Parameter], lr: float, decay: float, betas: tuple[float, float] = (0.9, 0.99)) -> None:
        super().__init__(params, {"lr": lr, "decay": decay, "betas": betas, "eps": 1e-8})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:
        for group in self.param_groups:
            b1, b2 = group["betas"]
            torch._foreach_mul_(group["params"], 1.0 - group["lr"] * group["decay"])
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state.update(t=0, m=torch.zeros_like(p), v=torch.zeros_like(p))
                state["t"] += 1
                state["m"].lerp_(p.grad, 1 - b1)
                state["v"].mul_(b2).addcmul_(p.grad, p.grad, value=1 - b2)
                m_hat = state["m"] / (1 - b1 ** state["t"])
                v_hat = state["v"] / (1 - b2 ** state["t"])
                p.addcdiv_(m_hat, v_hat.sqrt().add_(group["eps"]), value=-group["lr"])


class AdaptedLinear(nn.Module):
    def __init__(self, base: nn.Linear, rank: int) -> None:
        super().__init__()
        self.base = base
        self.down = nn.Parameter(torch.randn(rank, base.in_features) / math.sqrt(base.in_features))
        self.up = nn.Parameter(torch.zeros(base.out_features, rank))

    def forward(self, x: Tensor) -> Tensor:
        return self.base(x) + F.linear(F.linear(x, self.down), self.up)


class Block(nn.Module):
    def __init__(self, a: Args) -> None:
        super().__init__()
        self.heads = a.heads
        self.norm1, self.norm2 = nn.LayerNorm(a.dim), nn.LayerNorm(a.dim)
        self.qkv, self.proj = nn.Linear(a.dim, 3 * a.dim), nn.Linear(a.dim, a.dim)
        self.fc1, self.fc2 = nn.Linear(a.dim, 2 * a.dim), nn.Linear(2 * a.dim, a.dim)

    def forward(self, x: Tensor) -> Tensor:
        b, t, d = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(mixed.transpose(1, 2).reshape(b, t, d))
        return x + self.fc2(F.gelu(self.fc1(self.norm2(x))))


class TinyLM(nn.Module):
    def __init__(self, a: Args) -> None:
        super().__init__()
        self.embed, self.pos = nn.Embedding(a.vocab, a.dim), nn.Parameter(0.02 * torch.randn(a.length, a.dim))
        self.blocks = nn.Sequential(*(Block(a) for _ in range(a.layers)))
        self.norm, self.head = nn.LayerNorm(a.dim), nn.Linear(a.dim, a.vocab)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.norm(self.blocks(self.embed(tokens) + self.pos[: tokens.shape[1]])))

    def add_adapters(self, rank: int) -> None:
        self.requires_grad_(False)
        for block in self.blocks:
            for name in ("qkv", "proj", "fc1", "fc2"):
                setattr(block, name, AdaptedLinear(getattr(block, name), rank))


class Source:
    def __init__(self, vocab: int, length: int, seed: int) -> None:
        self.length = length
        self.table = torch.softmax(1.8 * torch.randn(vocab, vocab, generator=torch.Generator().manual_seed(seed)), dim=1)

    def draw(self, n: int, gen: torch.Generator) -> Tensor:
        out = torch.randint(0, len(self.table), (n, 1), generator=gen)
        for _ in range(self.length):
            out = torch.cat([out, torch.multinomial(self.table[out[:, -1]], 1, generator=gen)], 1)
        return out


def loss_of(model: nn.Module, batch: Tensor) -> Tensor:
    return F.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())


@torch.no_grad()
def evaluate(model: nn.Module, held_out: Tensor) -> float:
    model.eval()
    return loss_of(model, held_out).item()


def fit(model: nn.Module, source: Source, held_out: Tensor, opt: DecoupledAdam, steps: int, a: Args, tag: str) -> None:
    gen = torch.Generator().manual_seed(a.seed + steps)
    for step in range(1, steps + 1):
        model.train()
        loss = loss_of(model, source.draw(a.batch, gen))
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 50 == 0:
            print(f"[{tag}] {step} train {loss.item():.4f} valid {evaluate(model, held_out):.4f}")


def main() -> None:
    a = Args()
    torch.manual_seed(a.seed)
    torch.set_num_threads(1)
    general, special = Source(a.vocab, a.length, 1), Source(a.vocab, a.length, 2)
    special.table = 0.5 * general.table + 0.5 * special.table
    gen = torch.Generator().manual_seed(1000)
    model = TinyLM(a)
    opt = DecoupledAdam(model.parameters(), lr=4e-3, decay=0.02)
    fit(model, general, general.draw(256, gen), opt, a.pretrain_steps, a, "pretrain")
    model.add_adapters(a.rank)
    opt = DecoupledAdam(model.parameters(), lr=4e-3, decay=0.05)
    fit(model, special, special.draw(256, gen), opt, a.tune_steps, a, "adapters")


if __name__ == "__main__":
    main()
