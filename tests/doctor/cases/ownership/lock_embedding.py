"""The word vectors are fixed after the first half."""

import torch
from torch import nn


class Bag(nn.Module):
    def __init__(self, vocab):
        super().__init__()
        self.vectors = nn.Embedding(vocab, 12)
        self.out = nn.Linear(12, 2)

    def forward(self, ids):
        return self.out(self.vectors(ids).mean(1))


class Session:
    def __init__(self, steps=60):
        torch.manual_seed(7)
        self.steps = steps
        self.ids = torch.randint(0, 25, (200, 6))
        self.labels = (self.ids % 5).float().mean(1).gt(2).long()
        self.model = Bag(25)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.2, momentum=0.9)
        self.criterion = nn.CrossEntropyLoss()

    def clear(self):
        for p in self.model.parameters():
            if p.grad is not None:
                p.grad.zero_()

    def run(self):
        for step in range(self.steps):
            if step == self.steps // 2:
                self.model.vectors.weight.requires_grad_(False)
            pick = torch.randint(0, 200, (20,))
            self.clear()
            loss = self.criterion(self.model(self.ids[pick]), self.labels[pick])
            loss.backward()
            self.optimizer.step()
        print(loss.item())


Session().run()
