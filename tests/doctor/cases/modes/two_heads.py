"""One function for training and testing that never changes the mode; heads stand behind an encoder, called one by one."""

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset


class Encoder(nn.Module):
    def __init__(self, words, dim):
        super().__init__()
        self.embed = nn.Embedding(words, dim)
        self.mix = nn.GRU(dim, dim, batch_first=True)
        self.drop = nn.Dropout(0.2)

    def forward(self, ids):
        return self.drop(self.mix(self.embed(ids))[0])


class Pretrainer:
    def __init__(self, words=20, dim=24):
        self.encoder = Encoder(words, dim)
        self.order, self.words = nn.Linear(dim, 2), nn.Linear(dim, words)
        parts = nn.ModuleList([self.encoder, self.order, self.words])
        self.optimizer = torch.optim.Adam(parts.parameters(), lr=3e-3)

    def run(self, loader, train):
        total = 0.0
        for ids, hidden, order in loader:
            h = self.encoder(ids)
            loss = F.cross_entropy(self.order(h[:, -1]), order)
            loss = loss + F.cross_entropy(self.words(h).transpose(1, 2), hidden, ignore_index=-100)
            if train:
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
            total += loss.item() * len(ids)
        return total / len(loader.dataset)


def sentences(count, seed):
    generator = torch.Generator().manual_seed(seed)
    start = torch.randint(0, 20, (count, 1), generator=generator)
    order = torch.randint(0, 2, (count,), generator=generator)
    ids = (start + (1 + order[:, None]) * torch.arange(8)) % 20
    chosen = torch.rand(ids.shape, generator=generator) < 0.2
    return TensorDataset(ids.masked_fill(chosen, 0), ids.masked_fill(~chosen, -100), order)


torch.manual_seed(0)
trainer = Pretrainer()
train_loader = DataLoader(sentences(384, 1), batch_size=32, shuffle=True)
test_loader = DataLoader(sentences(96, 2), batch_size=32)
for epoch in range(4):
    print(epoch, round(trainer.run(train_loader, True), 3), round(trainer.run(test_loader, False), 3))
