# kind: several losses and optimizers
# expect: nothing
# like: lambda-absolute-lr
# why: the lambdas return what looks like a learning rate, but both groups have lr=1.0, so the factor is the rate:
#      the usual way to write the Noam schedule.
"""Which severity has a log line? A small transformer with the Noam schedule per group."""
import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

VOCAB, LENGTH, CLASSES = 60, 20, 3


def log_lines(n, seed):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, CLASSES, (n,), generator=g)
    x = torch.randint(10, VOCAB, (n, LENGTH), generator=g)
    for k in range(3):
        pos = torch.randint(0, LENGTH, (n,), generator=g)
        x[torch.arange(n), pos] = 3 * y + k
    return TensorDataset(x, y)


class Severity(nn.Module):
    def __init__(self, d=32, heads=4, layers=2):
        super().__init__()
        self.tok = nn.Embedding(VOCAB, d)
        self.pos = nn.Parameter(0.02 * torch.randn(LENGTH, d))
        layer = nn.TransformerEncoderLayer(d, heads, 64, dropout=0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.out = nn.Linear(d, CLASSES)

    def forward(self, x):
        return self.out(self.encoder(self.tok(x) + self.pos).mean(1))


def noam(d, warmup, scale):
    def rate(step):
        step += 1
        return scale * d ** -0.5 * min(step ** -0.5, step * warmup ** -1.5)
    return rate


def evaluate(model, loader):
    model.eval()
    hits = total = 0
    with torch.no_grad():
        for x, y in loader:
            hits += (model(x).argmax(1) == y).sum().item()
            total += len(y)
    return hits / total


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=8)
    ap.add_argument("--warmup", type=int, default=100)
    args = ap.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(80)
    train = DataLoader(log_lines(2048, 21), batch_size=64, shuffle=True)
    valid = DataLoader(log_lines(512, 22), batch_size=128)
    model = Severity()
    slow = [*model.tok.parameters(), model.pos]
    slow_ids = {id(p) for p in slow}
    fast = [p for p in model.parameters() if id(p) not in slow_ids]
    optimizer = torch.optim.Adam([{"params": slow}, {"params": fast}], lr=1.0, betas=(0.9, 0.98), eps=1e-9)
    scheduler = torch.optim.lr_scheduler.LambdaLR(
        optimizer, [noam(32, args.warmup, 0.15), noam(32, args.warmup, 0.1)])
    criterion = nn.CrossEntropyLoss()
    for epoch in range(args.epochs):
        model.train()
        total = 0.0
        for x, y in train:
            loss = criterion(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            scheduler.step()
            total += loss.item()
        rates = ", ".join(f"{r:.2e}" for r in scheduler.get_last_lr())
        print(f"epoch {epoch} loss {total / len(train):.4f} accuracy {evaluate(model, valid):.3f} rates {rates}")


if __name__ == "__main__":
    main()
