# kind: in a second phase
# expect: padding-in-loss
# why: phase one uses sequences of one length; phase two mixes lengths and pads with 0, but the loss function has no
#      ignore_index, so about half of the targets are padding that is trivially predicted.
"""Next-symbol model of modular progressions; a curriculum that ends with sequences of all lengths."""
import argparse

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)
PAD, SYMBOLS = 0, 24


class Progressions(Dataset):
    """x[t+1] = x[t] + d (mod 23), d changes rarely; symbols are 1..23, 0 is padding."""

    def __init__(self, count, lengths, seed):
        g = torch.Generator().manual_seed(seed)
        self.items = []
        low, high = lengths
        for _ in range(count):
            n = int(torch.randint(low, high + 1, (1,), generator=g))
            stride = torch.randint(1, 5, (1,), generator=g).repeat(n)
            walk = torch.randint(0, 23, (1,), generator=g) + stride.cumsum(0)
            slip = torch.rand(n, generator=g) < 0.05
            walk = torch.where(slip, torch.randint(0, 23, (n,), generator=g), walk)
            self.items.append(1 + walk % 23)

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


def collate(items):
    return pad_sequence(items, batch_first=True, padding_value=PAD)


class Model(nn.Module):
    def __init__(self, dim=48):
        super().__init__()
        self.embed = nn.Embedding(SYMBOLS, dim)
        self.rnn = nn.LSTM(dim, dim, batch_first=True)
        self.out = nn.Linear(dim, SYMBOLS)

    def forward(self, seq):
        return self.out(self.rnn(self.embed(seq))[0])


def sequence_loss(model, seq):
    logits = model(seq[:, :-1])
    return F.cross_entropy(logits.reshape(-1, SYMBOLS), seq[:, 1:].reshape(-1))


@torch.no_grad()
def accuracy(model, loader):
    model.eval()
    hits = count = 0
    for seq in loader:
        target = seq[:, 1:]
        real = target != PAD
        hits += ((model(seq[:, :-1]).argmax(-1) == target) & real).sum().item()
        count += real.sum().item()
    return hits / count


def phase(name, model, optimizer, lengths, epochs, seed):
    train = DataLoader(Progressions(1600, lengths, seed), batch_size=32, shuffle=True, collate_fn=collate)
    valid = DataLoader(Progressions(384, lengths, seed + 1), batch_size=128, collate_fn=collate)
    for epoch in range(epochs):
        model.train()
        total = 0.0
        for seq in train:
            loss = sequence_loss(model, seq)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            total += loss.item()
        print(f"{name} epoch {epoch}: loss {total / len(train):.4f}  accuracy {accuracy(model, valid):.3f}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float, default=4e-3)
    args = parser.parse_args()
    torch.manual_seed(37)
    model = Model()
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    phase("short", model, optimizer, (10, 10), epochs=6, seed=100)
    phase("mixed", model, optimizer, (5, 28), epochs=5, seed=200)


if __name__ == "__main__":
    main()
