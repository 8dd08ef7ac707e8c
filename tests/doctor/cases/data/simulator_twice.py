"""A simulator as an iterable dataset with two workers."""

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

torch.manual_seed(2)


class Simulator(IterableDataset):
    def __init__(self, seed, length):
        self.seed, self.length = seed, length

    def __iter__(self):
        rng = np.random.default_rng(self.seed)
        for _ in range(self.length):
            state = rng.normal(size=12).astype("float32")
            yield torch.from_numpy(state), torch.tensor([np.float32(np.sin(state[:3]).sum() + 0.1 * rng.normal())])


def main():
    loader = DataLoader(Simulator(7, 640), batch_size=32, num_workers=2)
    model = nn.Sequential(nn.Linear(12, 48), nn.Tanh(), nn.Linear(48, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for epoch in range(2):
        for x, y in loader:
            loss = nn.functional.mse_loss(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(epoch + 1, f"{loss.item():.3f}")


if __name__ == "__main__":
    main()
