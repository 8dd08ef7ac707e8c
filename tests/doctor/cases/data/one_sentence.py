"""One sentence at a time, (length, 1), as in the first tutorials; words come up again in any order."""

import random

import torch
from torch import nn

torch.manual_seed(0)
random.seed(0)


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(30, 8)
        self.rnn = nn.LSTM(8, 16)
        self.out = nn.Linear(16, 2)

    def forward(self, ids):
        return self.out(self.rnn(self.embed(ids))[0]).squeeze(1)


sentences = [torch.randint(0, 30, (random.randint(5, 12), 1)) for _ in range(40)]
model = Tagger()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for epoch in range(3):
    random.shuffle(sentences)
    for ids in sentences:
        loss = nn.functional.cross_entropy(model(ids), (ids.squeeze(1) > 15).long())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
