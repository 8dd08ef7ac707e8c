# kind: without a DataLoader
# expect: batchnorm-of-one
# why: Recordings have different lengths and therefore go through one at a time; gradients are gathered over eight of
#      them, but BatchNorm sees batches of one recording in training.
import random

import numpy as np
import torch
import torch.nn as nn

torch.set_num_threads(1)

SEED = 90
GROUP = 8
KINDS = ("sinus", "fibrillation", "flutter")


def heartbeat(kind, rng):
    """An ECG-like trace of 100 to 260 samples."""
    n = int(rng.integers(100, 261))
    t = np.arange(n)
    trace = 0.15 * rng.normal(size=n)
    gap = rng.uniform(22, 30)
    at = rng.uniform(0, gap)
    while at < n:
        trace += 1.5 * np.exp(-0.5 * ((t - at) / 1.3) ** 2)
        if KINDS[kind] == "sinus":
            trace += 0.4 * np.exp(-0.5 * ((t - at + 7) / 2.2) ** 2)
            at += gap * rng.normal(1, 0.03)
        elif KINDS[kind] == "fibrillation":
            at += gap * rng.uniform(0.5, 1.5)
        else:
            at += gap
    if KINDS[kind] == "flutter":
        trace += 0.3 * np.sin(2 * np.pi * t / rng.uniform(6, 8))
    return trace.astype(np.float32)


def clinic(n, rng):
    out = []
    for _ in range(n):
        k = int(rng.integers(len(KINDS)))
        out.append((heartbeat(k, rng), k))
    return out


def conv_block(i, o, k):
    return nn.Sequential(nn.Conv1d(i, o, k, padding=k // 2, bias=False), nn.BatchNorm1d(o), nn.ReLU(), nn.MaxPool1d(2))


class BeatNet(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.blocks = nn.Sequential(conv_block(1, 16, 9), conv_block(16, 24, 7), conv_block(24, 32, 5))
        self.head = nn.Linear(64, classes)

    def forward(self, x):
        h = self.blocks(x)
        return self.head(torch.cat([h.mean(-1), h.amax(-1)], 1))


def recordings(files, mean, std, shuffler=None):
    """Opens one recording after the other."""
    order = list(range(len(files)))
    if shuffler is not None:
        shuffler.shuffle(order)
    for i in order:
        trace, kind = files[i]
        yield torch.from_numpy((trace - mean) / std)[None, None], torch.tensor([kind])


def train_pass(net, opt, criterion, stream, count):
    net.train()
    total = 0.0
    opt.zero_grad()
    left = count
    group = min(GROUP, left)
    for i, (x, y) in enumerate(stream, 1):
        loss = criterion(net(x), y)
        (loss / group).backward()
        total += loss.item()
        if i % GROUP == 0 or i == count:
            opt.step()
            opt.zero_grad()
            left = count - i
            group = min(GROUP, left)
    return total / count


@torch.no_grad()
def valid_pass(net, criterion, stream, count):
    net.eval()
    total, right = 0.0, 0
    for x, y in stream:
        out = net(x)
        total += criterion(out, y).item()
        right += int(out.argmax(1).item() == y.item())
    return total / count, right / count


def main():
    random.seed(SEED)
    torch.manual_seed(SEED)
    rng = np.random.default_rng(SEED)
    train, valid = clinic(320, rng), clinic(90, rng)
    samples = np.concatenate([t for t, _ in train])
    mean, std = samples.mean(), samples.std()
    net = BeatNet(len(KINDS))
    opt = torch.optim.Adam(net.parameters(), lr=2e-3)
    criterion = nn.CrossEntropyLoss()
    shuffler = random.Random(SEED)
    for turn in range(6):
        t = train_pass(net, opt, criterion, recordings(train, mean, std, shuffler), len(train))
        v, acc = valid_pass(net, criterion, recordings(valid, mean, std), len(valid))
        print(f"pass {turn} train {t:.4f} valid {v:.4f} acc {acc:.3f}")


if __name__ == "__main__":
    main()
