"""The table of words and the output layer are one weight, and get one larger weight when the vocabulary grows."""

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)


class Model(nn.Module):
    def __init__(self, words):
        super().__init__()
        self.words = nn.Embedding(words, 16)
        self.mix = nn.Linear(16, 16)
        self.out = nn.Linear(16, words, bias=False)
        self.out.weight = self.words.weight

    def forward(self, ids):
        return self.out(torch.tanh(self.mix(self.words(ids))))


def train(model, words, steps):
    following = torch.randperm(words)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for _ in range(steps):
        ids = torch.randint(words, (32,))
        optimizer.zero_grad()
        F.cross_entropy(model(ids), following[ids]).backward()
        optimizer.step()


def larger(layer, rows):
    more = torch.full((rows, layer.weight.shape[1]), 0.01)
    return nn.Parameter(torch.cat([layer.weight.data, more]))


model = Model(20)
train(model, 20, 230)
model.words.weight = larger(model.words, 10)
model.out.weight = model.words.weight
train(model, 30, 80)
