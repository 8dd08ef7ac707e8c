# kind: without a DataLoader
# expect: accumulation-not-divided
# why: eight mean losses are accumulated and not divided by eight, so every step uses eight times the gradient of the
#      batch of 128 that the learning rate was meant for (SGD, so the step is eight times as long).
"""Sentiment of token sequences with a convolutional reader; a generator yields micro-batches of 16."""
import argparse
import torch
from torch import nn
import torch.nn.functional as F

VOCAB, LENGTH = 300, 30


def reviews(n, g):
    tok = torch.randint(20, VOCAB, (n, LENGTH), generator=g)
    y = torch.randint(0, 2, (n,), generator=g)
    mood = torch.randint(0, 10, (n, 4), generator=g) + 10 * y[:, None]
    where = torch.rand(n, LENGTH, generator=g).argsort(1)[:, :4]
    flip = torch.rand(n, generator=g) < 0.08
    return tok.scatter(1, where, mood), torch.where(flip, 1 - y, y)


class Reader(nn.Module):
    def __init__(self, dim, h):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, dim)
        self.conv = nn.Conv1d(dim, h, 3, padding=1)
        self.out = nn.Linear(h, 2)

    def forward(self, tok):
        h = F.relu(self.conv(self.embed(tok).transpose(1, 2)))
        return self.out(h.amax(2))


def micro(x, y, size):
    order = torch.randperm(len(x))
    for idx in order.split(size):
        yield x[idx], y[idx]


def accuracy(model, x, y):
    model.eval()
    with torch.no_grad():
        return (model(x).argmax(1) == y).float().mean().item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=8)
    ap.add_argument("--micro", type=int, default=16)
    ap.add_argument("--accumulate", type=int, default=8)
    ap.add_argument("--lr", type=float, default=0.02)
    args = ap.parse_args()
    torch.manual_seed(107)
    torch.set_num_threads(1)
    g = torch.Generator().manual_seed(1070)
    x, y = reviews(3840, g)
    xv, yv = reviews(640, g)
    model = Reader(24, 48)
    opt = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)
    for epoch in range(args.epochs):
        model.train()
        opt.zero_grad()
        total = 0.0
        for i, (xb, yb) in enumerate(micro(x, y, args.micro), 1):
            loss = F.cross_entropy(model(xb), yb)
            loss.backward()
            total += loss.item() * len(yb)
            if i % args.accumulate == 0:
                opt.step()
                opt.zero_grad()
        print(f"epoch {epoch} loss {total / len(x):.4f} valid acc {accuracy(model, xv, yv):.3f}")


if __name__ == "__main__":
    main()
