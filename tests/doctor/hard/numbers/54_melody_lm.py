# kind: numbers
# expect: nothing
# like: padding-in-loss
# why: the unreduced cross-entropy is computed for padding too, but it is multiplied by a mask made of the
#   lengths and divided by the number of real notes.
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader

torch.set_num_threads(1)

PAD, END, FIRST = 0, 1, 2
NOTES = 16


def compose(rng):
    """A melody walks in small steps of a key and comes home at the end."""
    length, step = rng.randint(6, 26), rng.choice([1, 2, 3])
    tune = [rng.randrange(NOTES)]
    for i in range(length):
        turn = -1 if (i // 4) % 2 else 1
        tune.append((tune[-1] + turn * step + (rng.randint(-1, 1) if rng.random() < 0.1 else 0)) % NOTES)
    return [FIRST + n for n in tune] + [END]


def collate(tunes):
    longest = max(map(len, tunes))
    grid = torch.full((len(tunes), longest), PAD)
    for row, tune in zip(grid, tunes):
        row[: len(tune)] = torch.tensor(tune)
    lengths = torch.tensor([len(t) for t in tunes])
    return grid[:, :-1], grid[:, 1:], lengths - 1


class MelodyModel(nn.Module):
    def __init__(self, vocab, width=64):
        super().__init__()
        self.embed = nn.Embedding(vocab, width, padding_idx=PAD)
        self.rnn = nn.LSTM(width, width, batch_first=True)
        self.out = nn.Linear(width, vocab)

    def forward(self, notes):
        h, _ = self.rnn(self.embed(notes))
        return self.out(h)


def note_losses(model, notes, following, lengths):
    logits = model(notes)
    each = F.cross_entropy(logits.transpose(1, 2), following, reduction="none")
    real = (torch.arange(following.size(1)) < lengths[:, None]).float()
    return (each * real).sum(), real.sum()


class EarlyMean:
    """Weighted running mean of plain numbers."""

    def __init__(self):
        self.top, self.bottom = 0.0, 0.0

    def add(self, total, weight):
        self.top += total
        self.bottom += weight

    def __call__(self):
        return self.top / self.bottom


def sweep(model, loader, optimizer=None):
    mean = EarlyMean()
    model.train(optimizer is not None)
    for notes, following, lengths in loader:
        with torch.set_grad_enabled(optimizer is not None):
            total, count = note_losses(model, notes, following, lengths)
        if optimizer is not None:
            optimizer.zero_grad()
            (total / count).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        mean.add(total.item(), count.item())
    return mean()


def main():
    rng = random.Random(1685)
    torch.manual_seed(1685)
    tunes = list({tuple(compose(rng)) for _ in range(1500)})
    tunes.sort()
    rng.shuffle(tunes)
    train, valid = tunes[:-250], tunes[-250:]
    train_loader = DataLoader(train, batch_size=32, shuffle=True, collate_fn=collate)
    valid_loader = DataLoader(valid, batch_size=50, collate_fn=collate)
    model = MelodyModel(FIRST + NOTES)
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    for epoch in range(6):
        a = sweep(model, train_loader, optimizer)
        b = sweep(model, valid_loader)
        print(f"epoch {epoch} nats per note: train {a:.4f} valid {b:.4f}")


main()
