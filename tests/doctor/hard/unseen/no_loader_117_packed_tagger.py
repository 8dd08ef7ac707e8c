# kind: no_loader
# expect: nothing
# why: Might be accused of padding-in-loss, future-leaks, plateau-wrong-sign or loss-summed: padded positions carry ignore_index and the sum is divided by real tokens, a tagger may read both ways, and the plateau schedule watches an accuracy with mode max.
"""Part-of-speech-like tagging with packed sequences and length-bucketed batches."""
import copy
import random

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence

VOCAB, TAGS, PAD, IGNORE = 60, 6, 0, -100


def sentence(rng):
    n = rng.randint(3, 24)
    words = [rng.randint(1, VOCAB - 1) for _ in range(n)]
    tags = []
    for i, w in enumerate(words):
        left = words[i - 1] if i > 0 else 0
        right = words[i + 1] if i + 1 < n else 0
        tags.append((w % 3) + (3 if left > right else 0))
    return torch.tensor(words), torch.tensor(tags)


class Buckets:
    """Batches of similar length; contents and order are drawn anew each time when `shuffle` is set."""

    def __init__(self, data, size, shuffle, seed=0):
        self.data, self.size, self.shuffle, self.rng = data, size, shuffle, random.Random(seed)

    def __iter__(self):
        keys = [len(w) + (self.rng.random() * 4 if self.shuffle else 0) for w, _ in self.data]
        order = sorted(range(len(self.data)), key=keys.__getitem__)
        chunks = [order[i : i + self.size] for i in range(0, len(order), self.size)]
        if self.shuffle:
            self.rng.shuffle(chunks)
        for chunk in chunks:
            words, tags = zip(*(self.data[i] for i in chunk))
            lengths = torch.tensor([len(w) for w in words])
            yield pad_sequence(words, True, PAD), lengths, pad_sequence(tags, True, IGNORE)


class Tagger(nn.Module):
    def __init__(self, dim=32, hidden=48):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, dim, padding_idx=PAD)
        self.rnn = nn.GRU(dim, hidden, batch_first=True, bidirectional=True)
        self.drop = nn.Dropout(0.2)
        self.out = nn.Linear(2 * hidden, TAGS)

    def forward(self, words, lengths):
        packed = pack_padded_sequence(self.drop(self.embed(words)), lengths, batch_first=True, enforce_sorted=False)
        hidden, _ = pad_packed_sequence(self.rnn(packed)[0], batch_first=True, total_length=words.shape[1])
        return self.out(self.drop(hidden))


def summed_loss(logits, tags):
    return F.cross_entropy(logits.flatten(0, 1), tags.flatten(), ignore_index=IGNORE, reduction="sum")


def evaluate(model, batches):
    model.eval()
    loss, right, tokens = 0.0, 0, 0
    with torch.inference_mode():
        for words, lengths, tags in batches:
            logits = model(words, lengths)
            real = tags != IGNORE
            loss += summed_loss(logits, tags).item()
            right += (logits.argmax(-1)[real] == tags[real]).sum().item()
            tokens += int(real.sum())
    return loss / tokens, right / tokens


def train_epoch(model, optimizer, batches):
    model.train()
    total, tokens = 0.0, 0
    for words, lengths, tags in batches:
        count = int(lengths.sum())
        loss = summed_loss(model(words, lengths), tags)
        optimizer.zero_grad()
        (loss / count).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        total += loss.item()
        tokens += count
    return total / tokens


def main():
    torch.set_num_threads(1)
    torch.manual_seed(14)
    rng = random.Random(14)
    data = [sentence(rng) for _ in range(2200)]
    train = Buckets(data[:1600], 48, shuffle=True, seed=1)
    valid, test = Buckets(data[1600:1900], 100, False), Buckets(data[1900:], 100, False)

    model = Tagger()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, mode="max", factor=0.4, patience=1)
    best, kept = 0.0, None
    for epoch in range(1, 11):
        train_loss = train_epoch(model, optimizer, train)
        valid_loss, accuracy = evaluate(model, valid)
        plateau.step(accuracy)
        print(f"{epoch:2d}  train {train_loss:.4f}  valid {valid_loss:.4f}  accuracy {accuracy:.4f}  lr {optimizer.param_groups[0]['lr']:.4f}")
        if accuracy > best:
            best, kept = accuracy, copy.deepcopy(model.state_dict())
    model.load_state_dict(kept)
    print("test loss %.4f, accuracy %.4f" % evaluate(model, test))


if __name__ == "__main__":
    main()
