"""The loader shuffles sentences, and its collate function puts time first."""

import random

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

torch.manual_seed(0)
random.seed(0)


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(30, 8)
        self.rnn = nn.LSTM(8, 12)
        self.out = nn.Linear(12, 3)

    def forward(self, ids):
        return self.out(self.rnn(self.embed(ids))[0])


def collate(sentences):
    ids = pad_sequence(sentences)
    return ids, torch.where(ids == 0, -100, ids % 3)


if __name__ == "__main__":
    data = [torch.randint(1, 30, (random.randint(5, 12),)) for _ in range(160)]
    loader = DataLoader(data, batch_size=8, shuffle=True, collate_fn=collate)
    model = Tagger()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for epoch in range(3):
        for ids, tags in loader:
            loss = nn.functional.cross_entropy(model(ids).reshape(-1, 3), tags.reshape(-1))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
