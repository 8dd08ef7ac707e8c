# kind: numbers
# expect: nothing
# why: bf16 weights are in no optimizer, but their gradients are unscaled into fp32 masters, clipped, stepped and copied back.
"""Sequence model in bfloat16 with float32 master weights and a hand-made dynamic loss scale."""
from __future__ import annotations

import argparse
import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

VOCAB, LENGTH = 16, 20


def make_sequences(n: int, gen: torch.Generator) -> Tensor:
    """Each token follows from the two before it, with some noise."""
    out = torch.randint(0, VOCAB, (n, 2), generator=gen)
    for _ in range(LENGTH - 1):
        nxt = (2 * out[:, -1] + out[:, -2] + 3) % VOCAB
        wild = torch.randint(0, VOCAB, (n,), generator=gen)
        keep = torch.rand(n, generator=gen) < 0.85
        out = torch.cat([out, torch.where(keep, nxt, wild).unsqueeze(1)], 1)
    return out


class SequenceModel(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCAB, dim)
        self.mix = nn.Conv1d(dim, dim, 3)
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(2))
        self.layers = nn.ModuleList(nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim)) for _ in range(2))
        self.head = nn.Linear(dim, VOCAB)

    def forward(self, tokens: Tensor) -> Tensor:
        h = self.embed(tokens).transpose(1, 2)
        h = self.mix(F.pad(h, (2, 0))).transpose(1, 2)
        for norm, layer in zip(self.norms, self.layers):
            h = h + layer(norm(h))
        return self.head(h).float()


class MasterWeights:
    """Float32 copies that the optimizer owns; the model holds them rounded."""

    def __init__(self, model: nn.Module) -> None:
        self.low = list(model.parameters())
        self.full = [nn.Parameter(p.detach().float().clone()) for p in self.low]

    @torch.no_grad()
    def take_gradients(self, scale: float) -> bool:
        finite = True
        for low, full in zip(self.low, self.full):
            full.grad = low.grad.float() / scale
            finite = finite and bool(full.grad.isfinite().all())
        return finite

    @torch.no_grad()
    def write_back(self) -> None:
        for low, full in zip(self.low, self.full):
            low.copy_(full)


class LossScale:
    def __init__(self, start: float = 2.0**10, window: int = 200, ceiling: float = 2.0**16) -> None:
        self.value, self.window, self.ceiling, self.good = start, window, ceiling, 0

    def update(self, finite: bool) -> None:
        self.good = self.good + 1 if finite else 0
        if not finite:
            self.value = max(self.value / 2, 1.0)
        elif self.good % self.window == 0:
            self.value = min(self.value * 2, self.ceiling)


def token_loss(model: nn.Module, batch: Tensor) -> Tensor:
    return F.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())


@torch.no_grad()
def evaluate(model: nn.Module, data: Tensor) -> float:
    model.eval()
    return sum(token_loss(model, part).item() * len(part) for part in data.split(128)) / len(data)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--dim", type=int, default=32)
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--max-norm", type=float, default=1.0)
    args = parser.parse_args()
    torch.manual_seed(23)
    torch.set_num_threads(1)
    gen = torch.Generator().manual_seed(23)
    train, valid = make_sequences(1600, gen), make_sequences(400, gen)

    model = SequenceModel(args.dim)
    masters = MasterWeights(model)
    model.to(torch.bfloat16)
    opt = torch.optim.AdamW(masters.full, lr=args.lr, weight_decay=0.01)
    steps = args.epochs * (len(train) // args.batch)
    sched = torch.optim.lr_scheduler.LambdaLR(
        opt, lambda s: min(1.0, (s + 1) / 30) * (0.05 + 0.475 * (1 + math.cos(math.pi * min(1.0, s / steps))))
    )
    scale, skipped = LossScale(), 0
    for epoch in range(args.epochs):
        model.train()
        total, count = 0.0, 0
        for rows in torch.randperm(len(train)).split(args.batch):
            model.zero_grad(set_to_none=True)
            loss = token_loss(model, train[rows])
            (loss * scale.value).backward()
            finite = masters.take_gradients(scale.value)
            if finite:
                nn.utils.clip_grad_norm_(masters.full, args.max_norm)
                opt.step()
                sched.step()
                masters.write_back()
            else:
                skipped += 1
            scale.update(finite)
            total, count = total + loss.item(), count + 1
        print(f"epoch {epoch} train {total / count:.4f} valid {evaluate(model, valid):.4f} scale {scale.value:.0f} skipped {skipped}")


if __name__ == "__main__":
    main()
