"""The generator makes the data once; reading it is deterministic."""

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Made(Dataset):
    def __init__(self, n, seed):
        self.rng = np.random.default_rng(seed)
        self.x = self.rng.normal(size=(n, 6)).astype(np.float32)
        self.y = (self.x.sum(1) + 0.3 * self.rng.normal(size=n)).astype(np.float32)

    def describe(self):
        return self.x[self.rng.choice(len(self.x), 3)]

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return torch.from_numpy(self.x[i]), torch.tensor(self.y[i])


class Evaluated(Made):
    def __getitem__(self, i):
        noisy = self.x[i] + np.random.default_rng(i).normal(0, 0.01, 6).astype(np.float32)
        return torch.from_numpy(noisy), torch.tensor(self.y[i])


def main():
    torch.manual_seed(0)
    train = DataLoader(Made(160, 0), batch_size=16, shuffle=True, num_workers=2)
    valid = DataLoader(Evaluated(40, 1), batch_size=40)
    model = nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 1))
    opt = torch.optim.SGD(model.parameters(), lr=0.05)
    loss_fn = nn.MSELoss()
    for epoch in range(3):
        model.train()
        for x, y in train:
            opt.zero_grad()
            loss_fn(model(x).squeeze(1), y).backward()
            opt.step()
        model.eval()
        with torch.no_grad():
            for x, y in valid:
                print(epoch, loss_fn(model(x).squeeze(1), y).item())


main()
