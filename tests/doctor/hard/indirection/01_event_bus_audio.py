# kind: behind indirection
# expect: missing-zero-grad
# why: zero_grad is registered on the "epoch_start" event instead of "batch_start", so within an epoch every step
#      uses the sum of all gradients since the epoch began.
"""Keyword spotting on synthetic tones; the loop only fires events, the work is done by subscribers."""
import argparse
from collections import defaultdict
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Bus:
    def __init__(self):
        self.table = defaultdict(list)

    def on(self, event):
        def register(fn):
            self.table[event].append(fn)
            return fn
        return register

    def fire(self, event, **payload):
        for fn in self.table[event]:
            fn(**payload)


def tones(n, classes=6, length=256):
    y = torch.randint(0, classes, (n,))
    t = torch.linspace(0, 1, length)
    freq = 6.0 + 3.0 * y[:, None] + 0.6 * torch.randn(n, 1)
    phase = 6.28 * torch.rand(n, 1)
    x = torch.sin(6.2832 * freq * t + phase) + 0.8 * torch.randn(n, length)
    x = (x - x.mean(1, keepdim=True)) / x.std(1, keepdim=True)
    return TensorDataset(x[:, None], y)


def build(classes):
    return nn.Sequential(
        nn.Conv1d(1, 16, 15, stride=2, padding=7), nn.ReLU(),
        nn.Conv1d(16, 32, 9, stride=2, padding=4), nn.ReLU(),
        nn.Conv1d(32, 32, 5, stride=2, padding=2), nn.ReLU(),
        nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(32, classes))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=7)
    ap.add_argument("--lr", type=float, default=2e-3)
    args = ap.parse_args()
    torch.manual_seed(3)
    torch.set_num_threads(1)
    train = DataLoader(tones(3200), batch_size=32, shuffle=True)
    valid = DataLoader(tones(640), batch_size=64)
    model = build(6)
    opt = torch.optim.Adam(model.parameters(), lr=args.lr)
    criterion = nn.CrossEntropyLoss()
    bus, log = Bus(), defaultdict(float)

    bus.on("epoch_start")(lambda **_: (model.train(), log.clear()))
    bus.on("epoch_start")(lambda **_: opt.zero_grad())

    @bus.on("batch")
    def learn(x, y):
        loss = criterion(model(x), y)
        loss.backward()
        opt.step()
        log["loss"] += loss.item() * len(y)
        log["n"] += len(y)

    @bus.on("epoch_end")
    @torch.no_grad()
    def validate(epoch):
        model.eval()
        hits = sum((model(x).argmax(1) == y).sum().item() for x, y in valid)
        print(f"epoch {epoch} loss {log['loss'] / log['n']:.4f} valid acc {hits / len(valid.dataset):.3f}")

    for epoch in range(args.epochs):
        bus.fire("epoch_start", epoch=epoch)
        for x, y in train:
            bus.fire("batch", x=x, y=y)
        bus.fire("epoch_end", epoch=epoch)


if __name__ == "__main__":
    main()
