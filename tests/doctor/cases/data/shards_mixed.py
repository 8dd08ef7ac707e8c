"""Sound events from shards, read in turn through a shuffle buffer."""

import random

import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

torch.manual_seed(1)
random.seed(1)


class Mixed(IterableDataset):
    def __init__(self, shards, size=400):
        self.shards, self.size = shards, size

    def __iter__(self):
        pairs = [(clip, label) for label, clips in self.shards.items() for clip in clips]
        random.shuffle(pairs)
        buffer = []
        for pair in pairs:
            buffer.append(pair)
            if len(buffer) >= self.size:
                yield buffer.pop(random.randrange(len(buffer)))
        random.shuffle(buffer)
        yield from buffer


def make(per_class, seed):
    g = torch.Generator().manual_seed(seed)
    centres = torch.randn(6, 30, generator=torch.Generator().manual_seed(99))
    return {c: 0.6 * centres[c] + torch.randn(per_class, 30, generator=g) for c in range(6)}


train = DataLoader(Mixed(make(160, 1)), batch_size=32)
model = nn.Sequential(nn.Linear(30, 64), nn.ReLU(), nn.Linear(64, 6))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for epoch in range(5):
    total = 0.0
    for clips, labels in train:
        loss = nn.functional.cross_entropy(model(clips), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    print(epoch + 1, f"{total / 30:.3f}")
