"""A small word classifier; new words get rows in the same nn.Embedding, whose optimizer holds the old weight."""

import torch
from torch import nn

torch.manual_seed(0)
table, head = nn.Embedding(20, 16), nn.Linear(16, 5)
model = nn.Sequential(table, nn.Flatten(0, 1), head)
rule = torch.randint(0, 5, (40,))
optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)


def train(words, steps):
    for _ in range(steps):
        x = torch.randint(0, words, (32, 1))
        loss = nn.functional.cross_entropy(model(x), rule[x[:, 0]])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        model.zero_grad()


train(20, 230)
table.weight = nn.Parameter(torch.cat([table.weight.detach(), 0.1 * torch.randn(20, 16)]))
table.num_embeddings = 40
train(40, 150)
