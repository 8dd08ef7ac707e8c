# kind: numbers
# expect: nothing
# like: softmax-before-cross-entropy
# why: the squashing before the cross-entropy is a soft cap of the logits at +-15 (cap * tanh(z / cap)), not a softmax;
#      the outputs are unnormalised, may be negative and the loss falls to the entropy of the grammar.
"""Next-symbol model of a shell-like grammar with capped logits."""
import argparse
import random

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SYMBOLS = ["<s>", "ls", "cp", "rm", "-r", "-f", "a", "b", "c", "|", ";"]
ID = {s: i for i, s in enumerate(SYMBOLS)}


def command(rng):
    verb = rng.choice(["ls", "cp", "rm"])
    out = [verb]
    if verb != "cp":
        out.append(rng.choice(["-r", "-f"]))
    names = rng.sample("abc", 2)
    out += names if verb == "cp" else names[:1]
    return out


def corpus(n, length, seed):
    rng = random.Random(seed)
    rows = []
    for _ in range(n):
        seq = ["<s>"]
        while len(seq) <= length:
            seq += command(rng) + [rng.choice("|;")]
        rows.append([ID[s] for s in seq[:length + 1]])
    return torch.tensor(rows)


class Grammar(nn.Module):
    def __init__(self, dim=48, cap=15.0):
        super().__init__()
        self.cap = cap
        self.emb = nn.Embedding(len(SYMBOLS), dim)
        self.rnn = nn.GRU(dim, dim, batch_first=True)
        self.out = nn.Linear(dim, len(SYMBOLS))

    def forward(self, x):
        z = self.out(self.rnn(self.emb(x))[0])
        return self.cap * torch.tanh(z / self.cap)


def loss_of(model, seq):
    logits = model(seq[:, :-1])
    return nn.functional.cross_entropy(logits.flatten(0, 1), seq[:, 1:].flatten())


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=8)
    ap.add_argument("--length", type=int, default=28)
    args = ap.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(57)
    train = DataLoader(TensorDataset(corpus(1536, args.length, 1)), batch_size=48, shuffle=True)
    valid = DataLoader(TensorDataset(corpus(384, args.length, 2)), batch_size=96)
    model = Grammar()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for epoch in range(args.epochs):
        model.train()
        total = 0.0
        for (seq,) in train:
            loss = loss_of(model, seq)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            total += loss.item()
        model.eval()
        with torch.no_grad():
            val = sum(loss_of(model, seq).item() * len(seq) for (seq,) in valid) / 384
        print(f"epoch {epoch} train {total / len(train):.4f} valid {val:.4f}")


if __name__ == "__main__":
    main()
