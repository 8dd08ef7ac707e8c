"""Embedding by an optimizer, the rest updated by hand."""

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(20, 8)
        self.fc = nn.Linear(8, 2)

    def forward(self, x):
        return self.fc(self.emb(x).mean(1))


model = Model()
sparse = torch.optim.SGD(model.emb.parameters(), lr=0.5)
ids = torch.randint(0, 20, (160, 5))
labels = (ids.float().mean(1) > 9.5).long()
for epoch in range(4):
    for pick in torch.randperm(160).split(16):
        model.zero_grad()
        loss = F.cross_entropy(model(ids[pick]), labels[pick])
        loss.backward()
        sparse.step()
        with torch.no_grad():
            for p in model.fc.parameters():
                p.data -= 0.05 * p.grad
    print(epoch, loss.item())
