# kind: in a second phase
# expect: nothing
# like: accumulation-not-divided
# why: in the second phase four batches are accumulated as sums over tokens, and the gradients are divided once, by the
#      number of real tokens of all four, before clipping and the step: exactly the mean over the large batch.
"""Toy transliteration (a letter depends on two source letters) with a GRU: small batches first, then large ones by accumulation."""
import argparse

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

torch.set_num_threads(1)
PAD, START, LETTERS = 0, 1, 22  # letters are 2..21


def words(count, generator):
    table = 2 + torch.randperm(20, generator=torch.Generator().manual_seed(606))
    pairs = []
    for n in torch.randint(4, 9, (count,), generator=generator).tolist():
        source = torch.randint(2, LETTERS, (n,), generator=generator)
        before = torch.cat([source.new_zeros(1), source[:-1]])
        pairs.append((source, table[(source + 3 * before) % 20]))
    return pairs


class Translator(nn.Module):
    def __init__(self, dim=56):
        super().__init__()
        self.source = nn.Embedding(LETTERS, dim, padding_idx=PAD)
        self.target = nn.Embedding(LETTERS, dim, padding_idx=PAD)
        self.decoder = nn.GRU(2 * dim, dim, batch_first=True)
        self.out = nn.Linear(dim, LETTERS)

    def forward(self, source, shifted):
        joint = torch.cat([self.source(source), self.target(shifted)], dim=-1)
        return self.out(self.decoder(joint)[0])


def batch_of(pairs, idx):
    source = pad_sequence([pairs[i][0] for i in idx], batch_first=True, padding_value=PAD)
    target = pad_sequence([pairs[i][1] for i in idx], batch_first=True, padding_value=PAD)
    start = torch.full((len(target), 1), START)
    return source, torch.cat([start, target[:, :-1]], dim=1), target


def token_sum(model, batch):
    source, shifted, target = batch
    loss = F.cross_entropy(model(source, shifted).flatten(0, 1), target.flatten(), ignore_index=PAD, reduction="sum")
    return loss, int((target != PAD).sum())


def epoch_of(model, optimizer, pairs, accumulate, size=16):
    model.train()
    chunks = torch.randperm(len(pairs)).split(size)
    total = tokens = 0
    for first in range(0, len(chunks), accumulate):
        group = chunks[first : first + accumulate]  # the last group may be shorter
        optimizer.zero_grad()
        here = 0
        for idx in group:
            loss, count = token_sum(model, batch_of(pairs, idx.tolist()))
            loss.backward()
            total += loss.item()
            here += count
        for p in model.parameters():
            p.grad.div_(here)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        tokens += here
    return total / tokens


@torch.no_grad()
def validate(model, pairs):
    model.eval()
    loss, count = token_sum(model, batch_of(pairs, range(len(pairs))))
    return loss.item() / count


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, nargs=2, default=[4, 6])
    parser.add_argument("--accumulate", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(84)
    generator = torch.Generator().manual_seed(84)
    train, valid = words(1600, generator), words(400, generator)
    model = Translator()
    optimizer = torch.optim.Adam(model.parameters(), lr=1.5e-3)
    for phase, accumulate in enumerate((1, args.accumulate)):
        for epoch in range(args.epochs[phase]):
            loss = epoch_of(model, optimizer, train, accumulate)
            print(f"phase {phase} epoch {epoch}: train {loss:.4f}  valid {validate(model, valid):.4f}")


if __name__ == "__main__":
    main()
