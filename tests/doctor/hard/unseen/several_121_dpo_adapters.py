# kind: several
# expect: nothing
# why: Direct preference optimisation where the reference is the policy itself with its adapters switched off; the shared base
#   weights are frozen, so the reference stays fixed although both are one module.
"""Supervised warm-up of a tiny causal language model, then preference tuning of low-rank adapters."""
import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass
class Config:
    vocab: int = 32
    width: int = 48
    heads: int = 4
    depth: int = 2
    prompt: int = 6
    answer: int = 12
    rank: int = 4
    sft_steps: int = 200
    dpo_steps: int = 200
    batch: int = 32
    beta: float = 0.2
    pad: int = 0


class AdaptedLinear(nn.Linear):
    def __init__(self, n_in: int, n_out: int, rank: int) -> None:
        super().__init__(n_in, n_out)
        self.down = nn.Parameter(torch.randn(rank, n_in) / math.sqrt(n_in))
        self.up = nn.Parameter(torch.zeros(n_out, rank))
        self.adapted = False

    def forward(self, x: Tensor) -> Tensor:
        out = super().forward(x)
        return out + 2.0 * (x @ self.down.T) @ self.up.T if self.adapted else out


class Block(nn.Module):
    def __init__(self, cfg: Config) -> None:
        super().__init__()
        self.heads = cfg.heads
        self.norm1, self.norm2 = nn.LayerNorm(cfg.width), nn.LayerNorm(cfg.width)
        self.qkv = AdaptedLinear(cfg.width, 3 * cfg.width, cfg.rank)
        self.proj = nn.Linear(cfg.width, cfg.width)
        self.mlp1 = AdaptedLinear(cfg.width, 2 * cfg.width, cfg.rank)
        self.mlp2 = nn.Linear(2 * cfg.width, cfg.width)

    def forward(self, x: Tensor) -> Tensor:
        b, t, c = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        x = x + self.proj(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, c))
        return x + self.mlp2(F.gelu(self.mlp1(self.norm2(x))))


class LanguageModel(nn.Module):
    def __init__(self, cfg: Config) -> None:
        super().__init__()
        self.tokens = nn.Embedding(cfg.vocab, cfg.width)
        self.places = nn.Embedding(cfg.prompt + cfg.answer - 1, cfg.width)
        self.blocks = nn.Sequential(*(Block(cfg) for _ in range(cfg.depth)))
        self.norm = nn.LayerNorm(cfg.width)
        self.out = nn.Linear(cfg.width, cfg.vocab)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.tokens(ids) + self.places(torch.arange(ids.shape[1]))
        return self.out(self.norm(self.blocks(x)))

    def adapters(self, on: bool) -> None:
        for m in [m for m in self.modules() if isinstance(m, AdaptedLinear)]:
            m.adapted = on


class Corpus:
    """Answers follow a Markov chain; annotators like answers with many tokens of the upper half."""

    def __init__(self, cfg: Config, seed: int) -> None:
        self.cfg, self.g = cfg, torch.Generator().manual_seed(seed)
        self.chain = (1.5 * torch.randn(cfg.vocab, cfg.vocab, generator=torch.Generator().manual_seed(99))).softmax(-1)
        self.chain[:, cfg.pad] = 0.0

    def walk(self, start: Tensor, steps: int) -> Tensor:
        ids = [start]
        for _ in range(steps):
            ids.append(torch.multinomial(self.chain[ids[-1]], 1, generator=self.g).squeeze(1))
        return torch.stack(ids[1:], 1)

    def answers(self, prompt: Tensor) -> Tensor:
        out = self.walk(prompt[:, -1], self.cfg.answer)
        length = torch.randint(self.cfg.answer // 2, self.cfg.answer + 1, (len(out), 1), generator=self.g)
        return torch.where(torch.arange(self.cfg.answer) < length, out, self.cfg.pad)

    def prompts(self, n: int) -> Tensor:
        return self.walk(torch.randint(1, self.cfg.vocab, (n,), generator=self.g), self.cfg.prompt)

    def pairs(self, n: int) -> tuple[Tensor, Tensor]:
        p = self.prompts(n)
        a, b = self.answers(p), self.answers(p)
        score = [(t >= self.cfg.vocab // 2).sum(1) / (t != self.cfg.pad).sum(1) for t in (a, b)]
        better = (score[0] >= score[1]).unsqueeze(1)
        return torch.cat([p, torch.where(better, a, b)], 1), torch.cat([p, torch.where(better, b, a)], 1)


def answer_logps(model: nn.Module, ids: Tensor, cfg: Config) -> tuple[Tensor, Tensor]:
    logp = model(ids[:, :-1]).log_softmax(-1).gather(-1, ids[:, 1:, None]).squeeze(-1)
    mask = (ids[:, 1:] != cfg.pad) & (torch.arange(ids.shape[1] - 1) >= cfg.prompt - 1)
    return (logp * mask).sum(1), mask.sum(1)


def margins(model: LanguageModel, chosen: Tensor, rejected: Tensor, cfg: Config) -> Tensor:
    both = torch.cat([chosen, rejected])
    policy = answer_logps(model, both, cfg)[0]
    model.adapters(False)
    with torch.no_grad():
        fixed = answer_logps(model, both, cfg)[0]
    model.adapters(True)
    won, lost = (policy - fixed).chunk(2)
    return cfg.beta * (won - lost)


def main() -> None:
    cfg = Config()
    torch.manual_seed(1)
    torch.set_num_threads(1)
    model, corpus = LanguageModel(cfg), Corpus(cfg, 2)
    low_rank = [p for n, p in model.named_parameters() if n.endswith((".down", ".up"))]
    base = [p for n, p in model.named_parameters() if not n.endswith((".down", ".up"))]

    optimizer = torch.optim.AdamW(base, lr=2e-3)
    for step in range(1, cfg.sft_steps + 1):
        prompt = corpus.prompts(cfg.batch)
        logps, count = answer_logps(model, torch.cat([prompt, corpus.answers(prompt)], 1), cfg)
        loss = -logps.sum() / count.sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            print(f"sft step {step} loss {loss.item():.4f}")

    for p in base:
        p.requires_grad_(False)
    model.adapters(True)
    held_out = Corpus(cfg, 3).pairs(512)
    optimizer = torch.optim.AdamW(low_rank, lr=2e-3, weight_decay=0.0)
    for step in range(1, cfg.dpo_steps + 1):
        loss = -F.logsigmoid(margins(model, *corpus.pairs(cfg.batch), cfg)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            model.eval()
            with torch.no_grad():
                m = margins(model, *held_out, cfg)
            model.train()
            print(f"dpo step {step} loss {loss.item():.4f} held-out margin {m.mean():.3f} accuracy {(m > 0).float().mean():.3f}")


if __name__ == "__main__":
    main()
