import random

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler, Sampler


class Sentences(Dataset):
    def __init__(self, n):
        self.items = []
        for k in range(n):
            label = 0 if k < n // 2 else 1
            words = torch.randint(0, 15, (8,))
            words[0] = label * 7 + int(words[0]) % 7
            self.items.append((words, label))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


class Shuffled(Sampler):
    def __init__(self, n, rng):
        self.n, self.rng = n, rng

    def __iter__(self):
        order = list(range(self.n))
        self.rng.shuffle(order)
        return iter(order)

    def __len__(self):
        return self.n


def main():
    torch.manual_seed(0)
    data = Sentences(200)
    loaders = [
        DataLoader(data, batch_sampler=BatchSampler(RandomSampler(data), 20, drop_last=False)),
        DataLoader(data, batch_size=20, sampler=Shuffled(len(data), random.Random(3))),
    ]
    model = nn.Sequential(nn.Embedding(15, 8), nn.Flatten(), nn.Linear(64, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for epoch in range(4):
        for words, label in loaders[epoch % 2]:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(words), label)
            loss.backward()
            optimizer.step()
        print(epoch, loss.item())


main()
