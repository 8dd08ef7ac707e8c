"""New words in a table of vectors: only their rows are to be trained."""

import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(10)
KNOWN, NEW = 60, 20


class Bag(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(KNOWN + NEW, 24)
        self.out = nn.Linear(24, 3)

    def forward(self, words):
        return self.out(self.table(words).mean(1))


words = torch.randint(KNOWN + NEW, (600, 12))
score = torch.randn(KNOWN + NEW, 3)
labels = score[words].sum(1).argmax(1)
model = Bag()
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
for epoch in range(6):
    for rows in torch.randperm(600).split(30):
        loss = F.cross_entropy(model(words[rows]), labels[rows])
        optimizer.zero_grad()
        loss.backward()
        model.table.weight.grad[:KNOWN] = 0
        optimizer.step()
    print(epoch + 1, f"{loss.item():.3f}")
