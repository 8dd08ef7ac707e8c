"""Micro-batches from an endless stream, scaled and counted across epochs."""

import torch
import torch.nn as nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(1337)
tokens = torch.randint(0, 16, (90, 9))
loader = DataLoader(TensorDataset(tokens[:, :-1], tokens[:, 1:]), batch_size=9, shuffle=True)


def forever():
    while True:
        yield from loader


class LM(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte, self.head = nn.Embedding(16, 16), nn.Linear(16, 16)

    def forward(self, idx, targets):
        logits = self.head(F.gelu(self.wte(idx)))
        return logits, F.cross_entropy(logits.flatten(0, 1), targets.flatten())


model = LM()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
stream = forever()
X, Y = next(stream)
micro_steps = 4
for iter_num in range(14):
    for micro_step in range(micro_steps):
        logits, loss = model(X, Y)
        loss = loss / micro_steps
        X, Y = next(stream)
        loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
print("loss", loss.item() * micro_steps)
