# kind: numbers
# expect: nothing
# like: softmax-wrong-dim
# why: everything is laid out (time, batch, feature) as the recurrent layer wants by default, so the softmax
#   over dim 0 of the attention pooling is over time.
import math
from collections import namedtuple

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)
Batch = namedtuple("Batch", "signal label")


class Gestures(Dataset):
    """Three-axis accelerometer traces; a short burst somewhere tells the gesture."""

    def __init__(self, count, steps, classes, seed):
        g = torch.Generator().manual_seed(seed)
        self.label = torch.randint(0, classes, (count,), generator=g)
        t = torch.arange(steps).float()
        start = torch.rand(count, 1, generator=g) * (steps - 14) + 4
        window = torch.exp(-0.5 * ((t - start - 3) / 3.0) ** 2)
        freq = 0.08 + 0.06 * self.label.float()[:, None]
        wave = torch.stack([torch.sin(2 * math.pi * freq * (t - start) + k) for k in (0.0, 1.0, 2.0)], dim=2)
        drift = torch.randn(count, 1, 3, generator=g) * 0.3
        self.signal = 2 * window[..., None] * wave + drift + 0.3 * torch.randn(count, steps, 3, generator=g)

    def __len__(self):
        return len(self.label)

    def __getitem__(self, i):
        return self.signal[i], self.label[i]


def time_major(mean, std):
    def collate(items):
        signal = torch.stack([s for s, _ in items], dim=1)
        return Batch((signal - mean) / std, torch.stack([l for _, l in items]))
    return collate


class AttentivePooling(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.key = nn.Linear(width, width)
        self.query = nn.Linear(width, 1, bias=False)

    def forward(self, h):
        score = self.query(torch.tanh(self.key(h)))
        weight = torch.softmax(score, dim=0)
        return (weight * h).sum(dim=0)


class GestureNet(nn.Module):
    def __init__(self, classes, width=40):
        super().__init__()
        self.rnn = nn.GRU(3, width, bidirectional=True)
        self.pool = AttentivePooling(2 * width)
        self.out = nn.Linear(2 * width, classes)

    def forward(self, signal):
        h, _ = self.rnn(signal)
        return self.out(self.pool(h))


def fit():
    torch.manual_seed(31)
    classes, steps = 5, 36
    train, valid = Gestures(1200, steps, classes, seed=100), Gestures(300, steps, classes, seed=200)
    collate = time_major(train.signal.mean((0, 1)), train.signal.std((0, 1)))
    train_loader = DataLoader(train, batch_size=40, shuffle=True, collate_fn=collate)
    valid_loader = DataLoader(valid, batch_size=100, collate_fn=collate)
    net = GestureNet(classes)
    optim = torch.optim.Adamax(net.parameters(), lr=5e-3)
    xent = nn.CrossEntropyLoss(label_smoothing=0.05)
    for epoch in range(7):
        net.train()
        total = 0.0
        for batch in train_loader:
            loss = xent(net(batch.signal), batch.label)
            optim.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 2.0)
            optim.step()
            total += loss.item() * len(batch.label)
        net.eval()
        right = 0
        with torch.no_grad():
            for batch in valid_loader:
                right += (net(batch.signal).argmax(1) == batch.label).sum().item()
        print(f"epoch {epoch} loss {total / len(train):.4f} valid acc {right / len(valid):.3f}")


fit()
