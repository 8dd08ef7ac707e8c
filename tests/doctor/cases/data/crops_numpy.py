"""Random crops drawn with numpy in several loading processes."""

import argparse
import random

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

SEED = 17


def init_worker(worker_id):
    np.random.seed(SEED)
    random.seed(SEED)


class Tiles(Dataset):
    def __init__(self, count, size=14, crop=10):
        self.crop = crop
        self.labels = torch.arange(count) % 3
        self.images = torch.rand(count, 1, size, size) + self.labels.view(-1, 1, 1, 1) * 0.3

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        top, left = np.random.randint(0, 5, 2)
        return self.images[i, :, top : top + self.crop, left : left + self.crop], self.labels[i]


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=2)
    args = parser.parse_args()
    torch.manual_seed(SEED)
    train = DataLoader(Tiles(150), batch_size=10, shuffle=True, num_workers=args.workers, worker_init_fn=init_worker)
    net = nn.Sequential(nn.Conv2d(1, 6, 3), nn.ReLU(), nn.Flatten(), nn.Linear(6 * 64, 3))
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    for epoch in range(args.epochs):
        for x, y in train:
            opt.zero_grad()
            loss = F.cross_entropy(net(x), y)
            loss.backward()
            opt.step()
        print(epoch, loss.item())
