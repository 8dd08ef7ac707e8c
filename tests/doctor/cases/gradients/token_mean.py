"""Sum the loss over micro-batches and divide the gradients by the number of tokens."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
vocab, pad = 12, 0


class Tiny(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(vocab, 16, padding_idx=pad)
        self.out = nn.Linear(16, vocab)

    def forward(self, tokens):
        return self.out(torch.tanh(self.embed(tokens)))


def batch():
    length = int(torch.randint(4, 9, ()))
    tokens = torch.randint(1, vocab, (6, length))
    target = tokens % (vocab - 1) + 1
    target[:, length - int(torch.randint(0, 2, ())) :] = pad
    return tokens, target


model = Tiny()
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
for update in range(30):
    optimizer.zero_grad()
    count = 0
    for _ in range(3):
        tokens, target = batch()
        loss = F.cross_entropy(model(tokens).flatten(0, 1), target.flatten(), ignore_index=pad, reduction="sum")
        loss.backward()
        count += int((target != pad).sum())
    for p in model.parameters():
        p.grad /= count
    optimizer.step()
print("done", loss.item() / count)
