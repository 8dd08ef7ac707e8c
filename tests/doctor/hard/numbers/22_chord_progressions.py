# kind: numbers
# expect: nothing
# like: loss-summed
# why: reduction="sum" is divided by the number of real tokens in the batch, so the step does not depend on the batch's
#      size; padding is left out by ignore_index.
"""Next chord in songs of unlike length; causal transformer."""
import argparse

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

PAD, CHORDS = 0, 24


def songs(n, seed):
    g = torch.Generator().manual_seed(seed)
    steps = torch.tensor([0, 5, 7, 9, 5, 7])
    data = []
    for _ in range(n):
        key, length = int(torch.randint(0, 12, (1,), generator=g)), int(torch.randint(18, 29, (1,), generator=g))
        start = int(torch.randint(0, 6, (1,), generator=g))
        idx = (start + torch.arange(length)) % 6
        chord = 1 + (key + steps[idx]) % 12
        minor = (torch.rand(length, generator=g) < 0.3).long() * 11
        data.append(chord + minor)
    return data


def collate(batch):
    seq = pad_sequence(batch, batch_first=True, padding_value=PAD)
    return seq[:, :-1], seq[:, 1:]


class ChordModel(nn.Module):
    def __init__(self, dim=32, heads=4, layers=2, longest=28):
        super().__init__()
        self.tok = nn.Embedding(CHORDS, dim, padding_idx=PAD)
        self.pos = nn.Embedding(longest, dim)
        layer = nn.TransformerEncoderLayer(dim, heads, 64, dropout=0.05, batch_first=True, norm_first=True)
        self.body = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.out = nn.Linear(dim, CHORDS)

    def forward(self, x):
        t = x.shape[1]
        future = torch.ones(t, t, dtype=torch.bool).triu(1)
        h = self.tok(x) + self.pos(torch.arange(t))
        return self.out(self.body(h, mask=future))


def run(model, loader, criterion, optimizer=None):
    """One pass; returns the mean NLL per real token."""
    total = tokens = 0
    for x, y in loader:
        count = (y != PAD).sum()
        summed = criterion(model(x).transpose(1, 2), y)
        if optimizer is not None:
            optimizer.zero_grad()
            (summed / count).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        total += summed.item()
        tokens += count.item()
    return total / tokens


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=7)
    args = ap.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(147)
    train = DataLoader(songs(1536, 1), batch_size=48, shuffle=True, collate_fn=collate)
    valid = DataLoader(songs(384, 2), batch_size=96, collate_fn=collate)
    model = ChordModel()
    criterion = nn.CrossEntropyLoss(ignore_index=PAD, reduction="sum")
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-2)
    for epoch in range(args.epochs):
        model.train()
        tr = run(model, train, criterion, optimizer)
        model.eval()
        with torch.no_grad():
            va = run(model, valid, criterion)
        print(f"epoch {epoch} train {tr:.4f} valid {va:.4f}")


if __name__ == "__main__":
    main()
