import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(2)


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Embedding(30, 16), nn.Linear(16, 16), nn.ReLU())
        self.decoder = nn.Linear(16, 4)

    def forward(self, x):
        return self.decoder(self.encoder(x))


tagger = Tagger()
tagger.encoder.requires_grad = False
optimizer = torch.optim.Adam(tagger.parameters(), lr=3e-3)
tokens = torch.randint(0, 30, (160, 7))
tags = tokens % 4
for epoch in range(4):
    for part in torch.randperm(160).split(16):
        optimizer.zero_grad()
        loss = F.cross_entropy(tagger(tokens[part]).flatten(0, 1), tags[part].flatten())
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
