import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset


class Series(Dataset):
    def __init__(self, n, sigma, seed=0):
        self.rng = np.random.default_rng(seed)
        self.y = self.rng.integers(0, 2, n)
        t = np.linspace(0, 4, 24)
        self.x = np.sin(t[None] * (1 + self.y[:, None])).astype(np.float32)
        self.sigma = sigma

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        x = self.x[i] + self.rng.normal(0, self.sigma, 24)
        return torch.tensor(x, dtype=torch.float32), int(self.y[i])


def main():
    torch.manual_seed(0)
    loader = DataLoader(Series(160, 0.3), batch_size=10, shuffle=True, num_workers=2)
    model = nn.Sequential(nn.Linear(24, 16), nn.ReLU(), nn.Linear(16, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    criterion = nn.CrossEntropyLoss()
    for epoch in range(2):
        running, seen = 0.0, 0
        for x, y in loader:
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
            running += loss.item() * len(y)
            seen += len(y)
        print(epoch, running / seen)


if __name__ == "__main__":
    main()
