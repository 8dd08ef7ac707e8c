"""Bearing fault detection with a loader over recordings."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

torch.manual_seed(9)


class Recordings(Dataset):
    def __init__(self, healthy, faulty, seed):
        g = torch.Generator().manual_seed(seed)
        base = torch.randn(healthy + faulty, 64, generator=g)
        t = torch.arange(64) / 6.0
        base[healthy:] += 0.5 * torch.sin(t)
        self.signals = base
        self.faulty = torch.cat([torch.zeros(healthy), torch.ones(faulty)])

    def __len__(self):
        return len(self.signals)

    def __getitem__(self, i):
        return {"signal": self.signals[i], "faulty": self.faulty[i:i + 1]}


train = DataLoader(Recordings(640, 480, 1), batch_size=32)
valid = DataLoader(Recordings(100, 100, 2), batch_size=50)
model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
criterion = nn.BCEWithLogitsLoss()
for epoch in range(5):
    model.train()
    for batch in train:
        loss = criterion(model(batch["signal"]), batch["faulty"])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        right = sum(((model(b["signal"]) > 0) == (b["faulty"] > 0.5)).sum().item() for b in valid)
    print(epoch + 1, right / 200)
