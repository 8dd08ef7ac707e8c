"""Bidirectional masked-token pre-training."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

MASK, VOCAB, LENGTH = 0, 20, 12


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, 32)
        self.pos = nn.Embedding(LENGTH, 32)
        layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(32, VOCAB)

    def forward(self, ids):
        return self.head(self.layers(self.emb(ids) + self.pos.weight))


torch.manual_seed(0)
start = torch.randint(1, VOCAB, (200, 1))
tokens = (start + torch.arange(LENGTH)) % (VOCAB - 1) + 1
loader = DataLoader(TensorDataset(tokens), batch_size=20, shuffle=True)
model = Encoder()
opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
for epoch in range(4):
    for (ids,) in loader:
        hide = torch.rand(ids.shape) < 0.2
        hide[:, 0] = True
        inputs = ids.masked_fill(hide, MASK)
        labels = ids.masked_fill(~hide, -100)
        logits = model(inputs)
        loss = F.cross_entropy(logits.view(-1, VOCAB), labels.view(-1), ignore_index=-100)
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(epoch, round(loss.item(), 3))
