"""Heartbeat classification with jitter as augmentation."""

import argparse

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, Subset


class Beats(Dataset):
    def __init__(self, signals, labels, augment):
        self.signals, self.labels, self.augment = signals, labels, augment

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        signal = self.signals[index].copy()
        if self.augment:
            signal = signal * np.random.uniform(0.8, 1.2) + np.random.normal(0, 0.1, signal.shape)
        return torch.tensor(signal, dtype=torch.float32), int(self.labels[index])


def synth(n, rng):
    t = np.linspace(0, 1, 30)
    labels = rng.integers(0, 2, n)
    return np.sin(2 * np.pi * (2 + 2 * labels[:, None]) * t) + rng.normal(0, 0.2, (n, 30)), labels


class Runner:
    def __init__(self, args):
        torch.manual_seed(args.seed)
        np.random.seed(args.seed)
        rng = np.random.default_rng(args.seed)
        data = Beats(*synth(260, rng), augment=True)
        order = rng.permutation(260).tolist()
        self.train = DataLoader(Subset(data, order[:200]), batch_size=25, shuffle=True)
        self.valid = DataLoader(Subset(data, order[200:]), batch_size=30)
        self.model = nn.Sequential(nn.Linear(30, 32), nn.ReLU(), nn.Linear(32, 2))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.loss = nn.CrossEntropyLoss()

    def epoch(self):
        self.model.train()
        for x, y in self.train:
            self.optimizer.zero_grad()
            self.loss(self.model(x), y).backward()
            self.optimizer.step()

    @torch.no_grad()
    def score(self):
        self.model.eval()
        hits = n = 0
        for x, y in self.valid:
            hits += int((self.model(x).argmax(1) == y).sum())
            n += len(y)
        return hits / n


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    runner = Runner(args)
    for epoch in range(args.epochs):
        runner.epoch()
        print(epoch, runner.score())
