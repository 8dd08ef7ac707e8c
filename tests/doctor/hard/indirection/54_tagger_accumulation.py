# kind: behind indirection
# expect: nothing
# like: accumulation-tail
# why: 50 batches do not divide by 4, but the accumulation context knows how many batches are left: the last window is
#      short, its losses are divided by its own length, and it is stepped before the epoch ends.
from contextlib import contextmanager

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


class Tagger(nn.Module):
    def __init__(self, vocab, tags, dim=32, length=16):
        super().__init__()
        self.tok = nn.Embedding(vocab, dim)
        self.pos = nn.Parameter(torch.randn(length, dim) * 0.7)
        layer = nn.TransformerEncoderLayer(dim, 4, 64, dropout=0.1, batch_first=True, norm_first=True)
        self.enc = nn.TransformerEncoder(layer, 2, norm=nn.LayerNorm(dim), enable_nested_tensor=False)
        self.out = nn.Linear(dim, tags)

    def forward(self, ids):
        return self.out(self.enc(self.tok(ids) + self.pos))


def corpus(n, seed, vocab=40, length=16):
    """The tag of a token depends on its class and on the domain, which the first token gives away."""
    g = torch.Generator().manual_seed(seed)
    ids = torch.randint(0, vocab, (n, length), generator=g)
    domain = (ids[:, :1] >= vocab // 2).long()
    return ids, ids % 3 + 3 * domain


class Accumulator:
    """Groups micro-batches into windows; the caller only ever sees `with acc.micro() as backward`."""

    def __init__(self, optimizer, window, total):
        self.optimizer, self.window, self.total = optimizer, window, total
        self.done = 0
        self.updates = 0

    def _size(self):
        first = self.done - self.done % self.window
        return min(self.window, self.total - first)

    @contextmanager
    def micro(self):
        size = self._size()
        if self.done % self.window == 0:
            self.optimizer.zero_grad()
        yield lambda loss: (loss / size).backward()
        self.done += 1
        if self.done % self.window == 0 or self.done == self.total:
            params = [p for grp in self.optimizer.param_groups for p in grp["params"]]
            nn.utils.clip_grad_norm_(params, 1.0)
            self.optimizer.step()
            self.updates += 1
        if self.done == self.total:
            self.done = 0


def tag_loss(model, ids, tags):
    return F.cross_entropy(model(ids).flatten(0, 1), tags.flatten())


def validate(model, loader):
    model.eval()
    hits = n = 0
    with torch.no_grad():
        for ids, tags in loader:
            hits += (model(ids).argmax(-1) == tags).sum().item()
            n += tags.numel()
    return hits / n


def main():
    torch.manual_seed(44)
    train = DataLoader(TensorDataset(*corpus(800, 1)), batch_size=16, shuffle=True)
    valid = DataLoader(TensorDataset(*corpus(200, 2)), batch_size=100)
    model = Tagger(40, 6)
    opt = torch.optim.AdamW(model.parameters(), lr=4e-3, weight_decay=1e-3)
    acc = Accumulator(opt, window=4, total=len(train))
    for epoch in range(12):
        model.train()
        total = 0.0
        for ids, tags in train:
            with acc.micro() as backward:
                loss = tag_loss(model, ids, tags)
                backward(loss)
            total += loss.item() * len(ids)
        print(f"epoch {epoch} loss {total / 800:.4f} valid acc {validate(model, valid):.3f} updates {acc.updates}")


if __name__ == "__main__":
    main()
