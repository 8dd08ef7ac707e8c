"""Denoising rows: the dataset runs a pipeline of steps, one of which draws."""

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

torch.manual_seed(5)


class Scale:
    def run(self, row):
        return row / 2.0


class Corrupt:
    def __init__(self, seed):
        self.random = np.random.RandomState(seed)

    def run(self, row):
        return (row + 0.3 * self.random.standard_normal(row.shape)).astype("float32")


class Rows(Dataset):
    def __init__(self, n, pipeline):
        self.table = np.random.default_rng(1).normal(size=(n, 16)).astype("float32")
        self.pipeline = pipeline

    def __len__(self):
        return len(self.table)

    def __getitem__(self, i):
        clean = row = self.table[i]
        for step in self.pipeline:
            row = step.run(row)
        return torch.from_numpy(row), torch.from_numpy(clean)


def main():
    loader = DataLoader(Rows(384, [Scale(), Corrupt(4)]), batch_size=32, shuffle=True, num_workers=2)
    model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 16))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for epoch in range(3):
        for noisy, clean in loader:
            loss = nn.functional.mse_loss(model(noisy), clean)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(epoch + 1, f"{loss.item():.3f}")


if __name__ == "__main__":
    main()
