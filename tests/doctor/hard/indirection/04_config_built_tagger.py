# kind: behind indirection
# expect: nothing
# like: future-leaks
# why: outputs depend on later positions, and they should: this is a tagger of whole sentences (a label per token that
#      depends on both neighbours), not a forecaster; the input holds no labels.
"""Sequence tagger assembled from a registry and a configuration; bidirectional GRU with a centred convolution."""
import argparse
import torch
from torch import nn
import torch.nn.functional as F

REGISTRY = {}


def register(name):
    def deco(fn):
        REGISTRY[name] = fn
        return fn
    return deco


class ConvSame(nn.Module):
    def __init__(self, dim, width):
        super().__init__()
        self.conv = nn.Conv1d(dim, dim, width, padding=width // 2)

    def forward(self, x):
        return x + F.gelu(self.conv(x.transpose(1, 2)).transpose(1, 2))


class BiGRU(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.rnn = nn.GRU(dim, dim // 2, batch_first=True, bidirectional=True)

    def forward(self, x):
        return x + self.rnn(x)[0]


register("embedding")(lambda vocab, dim: nn.Embedding(vocab, dim))
register("conv")(lambda dim, width=3: ConvSame(dim, width))
register("bigru")(lambda dim: BiGRU(dim))
register("head")(lambda dim, tags: nn.Linear(dim, tags))

CONFIG = [("embedding", dict(vocab=40, dim=32)), ("conv", dict(dim=32)), ("bigru", dict(dim=32)), ("head", dict(dim=32, tags=4))]


def from_config(config):
    return nn.Sequential(*(REGISTRY[name](**kwargs) for name, kwargs in config))


def sentences(n, length, generator):
    """The tag of a token depends on its own parity and on the parity of its right neighbour."""
    tok = torch.randint(0, 40, (n, length), generator=generator)
    right = torch.roll(tok, -1, 1)
    right[:, -1] = 0
    tags = (tok % 2) * 2 + (right % 2)
    flip = torch.rand(n, length, generator=generator) < 0.03
    return tok, torch.where(flip, torch.randint(0, 4, (n, length), generator=generator), tags)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=6)
    ap.add_argument("--batch", type=int, default=32)
    args = ap.parse_args()
    torch.manual_seed(5)
    torch.set_num_threads(1)
    g = torch.Generator().manual_seed(55)
    x, y = sentences(2048, 20, g)
    xv, yv = sentences(512, 20, g)
    model = from_config(CONFIG)
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), args.batch, shuffle=True)
    for epoch in range(args.epochs):
        model.train()
        total = 0.0
        for xb, yb in loader:
            opt.zero_grad()
            loss = F.cross_entropy(model(xb).flatten(0, 1), yb.flatten())
            loss.backward()
            opt.step()
            total += loss.item() * len(xb)
        model.eval()
        with torch.no_grad():
            acc = (model(xv).argmax(-1) == yv).float().mean().item()
        print(f"epoch {epoch} loss {total / len(x):.4f} valid tag accuracy {acc:.3f}")


if __name__ == "__main__":
    main()
