# kind: no_loader
# expect: future-leaks
# why: Convolutions are causal, but GroupNorm(1, C) on (B, C, T) takes mean and variance over all positions, later ones included.
"""Byte-level language model with gated causal convolutions on random windows of a corpus."""
from __future__ import annotations

import math
import random
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F


@dataclass
class Options:
    window: int = 48
    batch: int = 32
    channels: int = 32
    kernel: int = 3
    dilations: tuple[int, ...] = (1, 2, 4, 8)
    steps: int = 300
    warmup: int = 40
    lr: float = 3e-3
    eval_every: int = 75
    seed: int = 5


def write_corpus(sentences: int, seed: int) -> str:
    rng = random.Random(seed)
    nouns = ["river", "engine", "teacher", "garden", "window", "letter", "storm", "bridge", "market", "doctor"]
    verbs = ["follows", "opens", "repairs", "paints", "crosses", "finds", "counts", "moves"]
    looks = ["old", "quiet", "green", "heavy", "narrow", "bright", "small"]
    lines = []
    for _ in range(sentences):
        subject, thing = rng.choice(nouns), rng.choice(nouns)
        look = rng.choice(looks) + " " if rng.random() < 0.6 else ""
        end = f" with {rng.choice(nouns)}s" if rng.random() < 0.3 else ""
        lines.append(f"the {look}{subject} {rng.choice(verbs)} the {thing}{end}.")
    return " ".join(lines)


class CausalConv(nn.Conv1d):
    def __init__(self, a: int, b: int, kernel: int, dilation: int) -> None:
        super().__init__(a, b, kernel, dilation=dilation)
        self.left = (kernel - 1) * dilation

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(F.pad(x, (self.left, 0)))


class GatedBlock(nn.Module):
    def __init__(self, channels: int, kernel: int, dilation: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(1, channels)
        self.conv = CausalConv(channels, 2 * channels, kernel, dilation)
        self.mix = nn.Conv1d(channels, channels, 1)
        self.drop = nn.Dropout(0.05)

    def forward(self, x: Tensor) -> Tensor:
        value, gate = self.conv(self.norm(x)).chunk(2, dim=1)
        return x + self.drop(self.mix(value.tanh() * gate.sigmoid()))


class ConvLM(nn.Module):
    def __init__(self, vocab: int, o: Options) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocab, o.channels)
        self.blocks = nn.Sequential(*(GatedBlock(o.channels, o.kernel, d) for d in o.dilations))
        self.norm = nn.GroupNorm(1, o.channels)
        self.head = nn.Linear(o.channels, vocab)

    def forward(self, tokens: Tensor) -> Tensor:
        h = self.embed(tokens).transpose(1, 2)
        h = self.norm(self.blocks(h))
        return self.head(h.transpose(1, 2))


class Windows:
    """Random windows for training, consecutive ones for evaluation."""

    def __init__(self, ids: Tensor, o: Options, seed: int) -> None:
        self.ids, self.o = ids, o
        self.gen = torch.Generator().manual_seed(seed)

    def draw(self) -> tuple[Tensor, Tensor]:
        starts = torch.randint(0, len(self.ids) - self.o.window - 1, (self.o.batch,), generator=self.gen)
        rows = starts[:, None] + torch.arange(self.o.window + 1)
        chunk = self.ids[rows]
        return chunk[:, :-1], chunk[:, 1:]

    def sweep(self) -> list[tuple[Tensor, Tensor]]:
        count = (len(self.ids) - 1) // self.o.window
        x = self.ids[: count * self.o.window].view(count, -1)
        y = self.ids[1 : count * self.o.window + 1].view(count, -1)
        return list(zip(x.split(64), y.split(64)))


@torch.no_grad()
def bits_per_byte(model: nn.Module, windows: Windows) -> float:
    model.eval()
    total, seen = 0.0, 0
    for x, y in windows.sweep():
        total += F.cross_entropy(model(x).flatten(0, 1), y.flatten(), reduction="sum").item()
        seen += y.numel()
    return total / seen / math.log(2)


def main() -> None:
    o = Options()
    torch.manual_seed(o.seed)
    torch.set_num_threads(1)
    text = write_corpus(2200, o.seed)
    chars = sorted(set(text))
    ids = torch.tensor([chars.index(c) for c in text])
    cut = int(len(ids) * 0.9)
    train, valid = Windows(ids[:cut], o, 1), Windows(ids[cut:], o, 2)

    model = ConvLM(len(chars), o)
    opt = torch.optim.AdamW(model.parameters(), lr=o.lr, betas=(0.9, 0.98), weight_decay=0.01)

    def factor(step: int) -> float:
        if step < o.warmup:
            return (step + 1) / o.warmup
        return 0.1 + 0.45 * (1 + math.cos(math.pi * (step - o.warmup) / (o.steps - o.warmup)))

    sched = torch.optim.lr_scheduler.LambdaLR(opt, factor)
    for step in range(1, o.steps + 1):
        model.train()
        x, y = train.draw()
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
        opt.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        sched.step()
        if step % o.eval_every == 0:
            print(f"{step} train {loss.item() / math.log(2):.3f} valid {bits_per_byte(model, valid):.3f} bits per byte")


if __name__ == "__main__":
    main()
