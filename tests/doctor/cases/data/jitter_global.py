"""Noisy pulses with a module-level generator and two workers."""

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

torch.manual_seed(2)
RNG = np.random.default_rng(0)


def jitter(signal):
    return signal * RNG.uniform(0.8, 1.2) + RNG.normal(scale=0.2, size=signal.shape).astype("float32")


class Pulses(Dataset):
    def __init__(self, n):
        base = np.random.default_rng(3)
        self.labels = base.integers(3, size=n)
        t = np.linspace(0, 6.28, 40, dtype="float32")
        self.signals = np.sin((self.labels[:, None] + 1) * t).astype("float32")

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return torch.as_tensor(jitter(self.signals[i]), dtype=torch.float32), int(self.labels[i])


def main():
    loader = DataLoader(Pulses(320), batch_size=32, shuffle=True, num_workers=2)
    model = nn.Sequential(nn.Linear(40, 32), nn.ReLU(), nn.Linear(32, 3))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for epoch in range(3):
        for x, y in loader:
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(epoch + 1, f"{loss.item():.3f}")


if __name__ == "__main__":
    main()
