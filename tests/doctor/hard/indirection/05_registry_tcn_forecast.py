# kind: behind indirection
# expect: future-leaks
# why: the "dilated" block of the registry pads on both sides, so the output at t sees x[t+4], and the target is x[t+1]:
#      the next-symbol loss falls far below the entropy of the source.
"""Next-symbol model of a noisy Markov source: a TCN whose blocks are built from a registry."""
import argparse
import functools
import torch
from torch import nn
import torch.nn.functional as F

BLOCKS = {}


def block(name, **defaults):
    def deco(cls):
        BLOCKS[name] = functools.partial(cls, **defaults)
        return cls
    return deco


@block("plain", dilation=1)
@block("wide", dilation=2)
class Causal(nn.Module):
    def __init__(self, dim, dilation):
        super().__init__()
        self.left = 2 * dilation
        self.conv = nn.Conv1d(dim, dim, 3, dilation=dilation)

    def pad(self, x):
        return F.pad(x, (self.left, 0))

    def forward(self, x):
        return x + F.relu(self.conv(self.pad(x)))


@block("dilated", dilation=4)
class Dilated(Causal):
    def pad(self, x):
        return F.pad(x, (self.left // 2, self.left - self.left // 2))


class TCN(nn.Module):
    def __init__(self, vocab, dim, names):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.blocks = nn.Sequential(*(BLOCKS[n](dim) for n in names))
        self.head = nn.Linear(dim, vocab)

    def forward(self, tok):
        return self.head(self.blocks(self.embed(tok).transpose(1, 2)).transpose(1, 2))


def source(n, length, table, g):
    s = torch.randint(0, table.shape[0], (n, 1), generator=g)
    cols = [s]
    for _ in range(length):
        cols.append(torch.multinomial(table[cols[-1].squeeze(1)], 1, generator=g))
    return torch.cat(cols, 1)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--blocks", default="plain,wide,dilated")
    ap.add_argument("--epochs", type=int, default=5)
    args = ap.parse_args()
    torch.manual_seed(1)
    torch.set_num_threads(1)
    g = torch.Generator().manual_seed(9)
    table = torch.softmax(1.5 * torch.randn(12, 12, generator=g), 1)
    train, valid = source(2048, 32, table, g), source(256, 32, table, g)
    model = TCN(12, 48, args.blocks.split(","))
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3)
    ce = lambda seq: F.cross_entropy(model(seq[:, :-1]).flatten(0, 1), seq[:, 1:].flatten())
    for epoch in range(args.epochs):
        model.train()
        total = 0.0
        for idx in torch.randperm(len(train)).split(16):
            opt.zero_grad()
            loss = ce(train[idx])
            loss.backward()
            opt.step()
            total += loss.item() * len(idx)
        model.eval()
        with torch.no_grad():
            v = ce(valid).item()
        print(f"epoch {epoch} train nll {total / len(train):.4f} valid nll {v:.4f}")
    entropy = -(table * table.log()).sum(1).mean()
    print(f"mean row entropy of the source {entropy:.4f}")


if __name__ == "__main__":
    main()
