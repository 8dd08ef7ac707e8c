# kind: numbers
# expect: nothing
# why: The micro-batch losses are sums over real tokens, divided by the token count of the whole group, so unequal micro-batches and the short last group are weighted right. Only the first epoch goes from short to long on purpose; later ones are shuffled.
"""Small tied-embedding language model trained with token-weighted gradient accumulation."""
from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

PAD, BOS, EOS = 0, 1, 2


@dataclass(frozen=True)
class Config:
    vocab: int = 40
    dim: int = 48
    micro: int = 16
    group: int = 4
    epochs: int = 14
    lr: float = 4e-3
    clip: float = 1.0
    seed: int = 3


def sentence(rng: random.Random, vocab: int) -> Tensor:
    """Arithmetic walks over the vocabulary; the stride changes at random places."""
    length = rng.choice([5, 8, 12, 20, 33])
    token, stride = rng.randrange(vocab - 3), rng.choice([1, 2, 5])
    out = [BOS]
    for _ in range(length):
        out.append(3 + token)
        if rng.random() < 0.1:
            stride = rng.choice([1, 2, 5])
        token = (token + stride) % (vocab - 3)
    return torch.tensor([*out, EOS])


class TiedLM(nn.Module):
    def __init__(self, cfg: Config) -> None:
        super().__init__()
        self.embed = nn.Embedding(cfg.vocab, cfg.dim)
        nn.init.normal_(self.embed.weight, std=cfg.dim ** -0.5)
        self.rnn = nn.GRU(cfg.dim, cfg.dim, batch_first=True)
        self.drop = nn.Dropout(0.1)
        self.out = nn.Linear(cfg.dim, cfg.vocab)
        self.out.weight = self.embed.weight

    def forward(self, tokens: Tensor) -> Tensor:
        hidden, _ = self.rnn(self.drop(self.embed(tokens)))
        return self.out(self.drop(hidden))


def token_loss(model: TiedLM, batch: Tensor) -> Tensor:
    logits = model(batch[:, :-1])
    return F.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten(), ignore_index=PAD, reduction="sum")


def token_count(batch: Tensor) -> int:
    return int((batch[:, 1:] != PAD).sum())


def micro_batches(data: list[Tensor], size: int, rng: random.Random, easy_first: bool) -> list[Tensor]:
    order = list(range(len(data)))
    rng.shuffle(order)
    if easy_first:
        order.sort(key=lambda i: len(data[i]))
    chunks = [order[i:i + size] for i in range(0, len(order), size)]
    return [pad_sequence([data[i] for i in chunk], batch_first=True, padding_value=PAD) for chunk in chunks]


def groups(batches: list[Tensor], size: int) -> Iterator[list[Tensor]]:
    for i in range(0, len(batches), size):
        yield batches[i:i + size]


def train_group(model: TiedLM, opt: torch.optim.Optimizer, group: list[Tensor], clip: float) -> tuple[float, int]:
    tokens = sum(token_count(batch) for batch in group)
    opt.zero_grad(set_to_none=True)
    total = 0.0
    for batch in group:
        loss = token_loss(model, batch) / tokens
        loss.backward()
        total += loss.item() * tokens
    nn.utils.clip_grad_norm_(model.parameters(), clip)
    opt.step()
    return total, tokens


@torch.no_grad()
def perplexity(model: TiedLM, data: list[Tensor], size: int) -> float:
    model.eval()
    total, tokens = 0.0, 0
    for i in range(0, len(data), size):
        batch = pad_sequence(data[i:i + size], batch_first=True, padding_value=PAD)
        total += token_loss(model, batch).item()
        tokens += token_count(batch)
    return math.exp(total / tokens)


def main(cfg: Config = Config()) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(cfg.seed)
    rng = random.Random(cfg.seed)
    unique = list({tuple(sentence(rng, cfg.vocab).tolist()) for _ in range(1500)})
    unique.sort()
    rng.shuffle(unique)
    data = [torch.tensor(s) for s in unique]
    valid, train = data[:150], data[150:150 + 740]

    model = TiedLM(cfg)
    opt = torch.optim.AdamW(model.parameters(), lr=cfg.lr, weight_decay=0.01)
    per_epoch = math.ceil(math.ceil(len(train) / cfg.micro) / cfg.group)
    warm, total_steps = per_epoch, per_epoch * cfg.epochs

    def factor(step: int) -> float:
        if step < warm:
            return (step + 1) / warm
        return 0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * (step - warm) / (total_steps - warm)))

    sched = torch.optim.lr_scheduler.LambdaLR(opt, factor)
    for epoch in range(cfg.epochs):
        model.train()
        loss_sum, seen = 0.0, 0
        for group in groups(micro_batches(train, cfg.micro, rng, easy_first=epoch == 0), cfg.group):
            total, tokens = train_group(model, opt, group, cfg.clip)
            sched.step()
            loss_sum, seen = loss_sum + total, seen + tokens
        print(f"epoch {epoch:2d} train ppl {math.exp(loss_sum / seen):7.3f} valid ppl {perplexity(model, valid, 32):7.3f}")


if __name__ == "__main__":
    main()
