"""Language model whose weights, gradients and activations are all bfloat16."""

import torch
import torch.nn as nn
from torch.nn import functional as F

torch.manual_seed(1337)
torch.set_default_dtype(torch.bfloat16)
vocab, dim, block = 20, 24, 8


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.up, self.down = nn.Linear(dim, 2 * dim), nn.Linear(2 * dim, dim)

    def forward(self, x):
        return x + self.down(F.silu(self.up(self.norm(x))))


class LM(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte = nn.Embedding(vocab, dim)
        self.blocks = nn.Sequential(Block(), Block())
        self.head = nn.Linear(dim, vocab)

    def forward(self, idx):
        return self.head(self.blocks(self.wte(idx)))


model = LM()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
for step in range(48):
    start = torch.randint(0, vocab, (8, 1))
    seq = (start + torch.arange(block + 1)) % vocab
    logits = model(seq[:, :-1])
    loss = F.cross_entropy(logits.flatten(0, 1), seq[:, 1:].flatten())
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    if step % 16 == 0:
        print(step, loss.item())
