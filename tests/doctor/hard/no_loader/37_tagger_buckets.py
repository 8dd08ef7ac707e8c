# kind: without a DataLoader
# expect: nothing
# like: padding-in-loss
# why: Sentences are bucketed and padded by hand and the padded targets are 0, which is also a real tag; the per-token
#      losses are multiplied by the mask and divided by the number of real tokens, so the padding has no weight.
import random
from collections import defaultdict

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

TAGS = ["O", "PER", "LOC", "NUM"]


def seed_everything(seed):
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def write_sentence(rng):
    """Words 1..59 are plain, 60..79 names, 80..99 numbers; a name after a word divisible by 3 is a place."""
    n = int(rng.integers(4, 24))
    words, tags = [], []
    for _ in range(n):
        r = rng.random()
        if r < 0.65:
            words.append(int(rng.integers(1, 60)))
            tags.append(0)
        elif r < 0.88:
            after_place_word = bool(words) and words[-1] % 3 == 0
            words.append(int(rng.integers(60, 80)))
            tags.append(2 if after_place_word else 1)
        else:
            words.append(int(rng.integers(80, 100)))
            tags.append(3)
    return words, tags


def bucketize(sentences, batch, rng=None):
    """Groups of similar length. With an rng both members and order are drawn anew."""
    order = list(range(len(sentences)))
    if rng is not None:
        rng.shuffle(order)
    buckets, groups = defaultdict(list), []
    for i in order:
        key = len(sentences[i][0]) // 6
        buckets[key].append(i)
        if len(buckets[key]) == batch:
            groups.append(buckets.pop(key))
    groups.extend(buckets.values())
    if rng is not None:
        rng.shuffle(groups)
    return groups


def pad_group(sentences, group):
    lengths = torch.tensor([len(sentences[i][0]) for i in group])
    words = torch.zeros(len(group), int(lengths.max()), dtype=torch.long)
    tags = torch.zeros_like(words)
    for row, i in enumerate(group):
        w, t = sentences[i]
        words[row, :len(w)] = torch.tensor(w)
        tags[row, :len(t)] = torch.tensor(t)
    return words, tags, lengths


class Tagger(nn.Module):
    def __init__(self, vocab=100, dim=24, hidden=32):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim, padding_idx=0)
        self.rnn = nn.LSTM(dim, hidden, batch_first=True, bidirectional=True)
        self.drop = nn.Dropout(0.2)
        self.out = nn.Linear(2 * hidden, len(TAGS))

    def forward(self, words, lengths):
        packed = pack_padded_sequence(self.embed(words), lengths, batch_first=True, enforce_sorted=False)
        h, _ = pad_packed_sequence(self.rnn(packed)[0], batch_first=True)
        return self.out(self.drop(h))


def token_losses(logits, tags, lengths):
    mask = torch.arange(tags.size(1))[None] < lengths[:, None]
    each = F.cross_entropy(logits.transpose(1, 2), tags, reduction="none")
    return (each * mask).sum() / mask.sum(), mask


def main():
    torch.set_num_threads(1)
    seed_everything(77)
    rng = np.random.default_rng(77)
    sentences = [write_sentence(rng) for _ in range(1100)]
    train, valid = sentences[:900], sentences[900:]
    valid_groups = [pad_group(valid, g) for g in bucketize(valid, 32)]

    model = Tagger()
    opt = torch.optim.NAdam(model.parameters(), lr=3e-3)
    shuffler = random.Random(77)
    for epoch in range(7):
        model.train()
        total, tokens = 0.0, 0
        for group in bucketize(train, 24, shuffler):
            words, tags, lengths = pad_group(train, group)
            opt.zero_grad()
            loss, mask = token_losses(model(words, lengths), tags, lengths)
            loss.backward()
            opt.step()
            total += loss.item() * mask.sum().item()
            tokens += mask.sum().item()

        model.eval()
        vtotal, vtokens, hits = 0.0, 0, 0
        with torch.no_grad():
            for words, tags, lengths in valid_groups:
                logits = model(words, lengths)
                loss, mask = token_losses(logits, tags, lengths)
                vtotal += loss.item() * mask.sum().item()
                vtokens += mask.sum().item()
                hits += ((logits.argmax(-1) == tags) & mask).sum().item()
        print(f"epoch {epoch} train {total / tokens:.4f} valid {vtotal / vtokens:.4f} token acc {hits / vtokens:.4f}")


if __name__ == "__main__":
    main()
