# kind: no_loader
# expect: nothing
# why: Right: padded positions are masked out of the hand-written loss and divided by the number of real tokens, the encoder may read
#      the whole source, the decoder sees earlier target tokens only, and the learning rate is set per step by a function of the step.
"""Sequence-to-sequence GRU on a stream of synthetic rewriting tasks, trained with scheduled teacher forcing."""
import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence

PAD, BOS, EOS = 0, 1, 2


@dataclass
class Config:
    vocab: int = 16
    shortest: int = 7
    longest: int = 10
    dim: int = 32
    hidden: int = 64
    batch_size: int = 32
    steps: int = 300
    lr: float = 4e-3
    warmup: int = 40
    seed: int = 19


def rewrite(tokens):
    """The task: write the source backwards, every symbol replaced by its partner."""
    return [3 + (t - 3 ^ 1) for t in reversed(tokens)] + [EOS]


def pad(rows, width):
    return torch.tensor([row + [PAD] * (width - len(row)) for row in rows])


class Stream:
    """Makes batches without end; sources whose checksum is 0 are kept for validation."""

    def __init__(self, cfg, gen, held_out):
        self.cfg, self.gen, self.held_out = cfg, gen, held_out

    def source(self):
        while True:
            n = int(torch.randint(self.cfg.shortest, self.cfg.longest + 1, (), generator=self.gen))
            tokens = torch.randint(3, self.cfg.vocab - 1, (n,), generator=self.gen).tolist()
            if (sum(i * t for i, t in enumerate(tokens, 1)) % 8 == 0) == self.held_out:
                return tokens

    def batch(self, n):
        sources = [self.source() for _ in range(n)]
        lengths = torch.tensor([len(s) for s in sources])
        return pad(sources, self.cfg.longest), lengths, pad([rewrite(s) for s in sources], self.cfg.longest + 1)


class Seq2Seq(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.hidden = cfg.hidden
        self.embed = nn.Embedding(cfg.vocab, cfg.dim, padding_idx=PAD)
        self.encoder = nn.GRU(cfg.dim, cfg.hidden, batch_first=True, bidirectional=True)
        self.bridge = nn.Linear(2 * cfg.hidden, cfg.hidden)
        self.keys = nn.Linear(2 * cfg.hidden, cfg.hidden)
        self.cell = nn.GRUCell(cfg.dim + cfg.hidden, cfg.hidden)
        self.out = nn.Linear(2 * cfg.hidden, cfg.vocab)

    def encode(self, source, lengths):
        packed = pack_padded_sequence(self.embed(source), lengths, batch_first=True, enforce_sorted=False)
        memory, last = self.encoder(packed)
        memory, _ = nn.utils.rnn.pad_packed_sequence(memory, batch_first=True, total_length=source.shape[1])
        return self.keys(memory), torch.tanh(self.bridge(torch.cat([last[0], last[1]], dim=1)))

    def forward(self, source, lengths, target, force):
        keys, state = self.encode(source, lengths)
        empty = (source == PAD)
        token, outputs = torch.full((len(source),), BOS), []
        context = torch.zeros(len(source), self.hidden)
        for t in range(target.shape[1]):
            state = self.cell(torch.cat([self.embed(token), context], dim=1), state)
            scores = (keys @ state.unsqueeze(2)).squeeze(2) / self.hidden**0.5
            attention = scores.masked_fill(empty, -1e4).softmax(dim=1)
            context = (attention.unsqueeze(1) @ keys).squeeze(1)
            outputs.append(self.out(torch.cat([state, context], dim=1)))
            token = target[:, t] if force else outputs[-1].argmax(1)
        return torch.stack(outputs, dim=1)


def token_loss(logits, target):
    logp = F.log_softmax(logits, dim=-1).gather(2, target.unsqueeze(2)).squeeze(2)
    real = (target != PAD).float()
    return -(logp * real).sum() / real.sum()


def set_lr(optimizer, cfg, step):
    warm = min(1.0, (step + 1) / cfg.warmup)
    cosine = 0.5 * (1 + math.cos(math.pi * step / cfg.steps))
    for group in optimizer.param_groups:
        group["lr"] = cfg.lr * warm * max(cosine, 0.02)


@torch.no_grad()
def validate(model, batch):
    model.eval()
    source, lengths, target = batch
    written = model(source, lengths, target, force=False).argmax(-1)
    real = target != PAD
    tokens = (written == target)[real].float().mean().item()
    whole = ((written == target) | ~real).all(1).float().mean().item()
    model.train()
    return tokens, whole


def main():
    cfg = Config()
    torch.set_num_threads(1)
    torch.manual_seed(cfg.seed)
    gen = torch.Generator().manual_seed(cfg.seed)
    train, held_out = Stream(cfg, gen, held_out=False), Stream(cfg, gen, held_out=True).batch(256)
    model = Seq2Seq(cfg)
    optimizer = torch.optim.Adam(model.parameters(), lr=cfg.lr)
    for step in range(cfg.steps):
        set_lr(optimizer, cfg, step)
        force = torch.rand((), generator=gen).item() > 0.3 * step / cfg.steps
        source, lengths, target = train.batch(cfg.batch_size)
        loss = token_loss(model(source, lengths, target, force), target)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if (step + 1) % 100 == 0:
            tokens, whole = validate(model, held_out)
            print(f"step {step + 1:4d}  loss {loss.item():.4f}  tokens {tokens:.3f}  sequences {whole:.3f}")


if __name__ == "__main__":
    main()
