"""Trains a bag-of-context language model; several micro-batches make an update."""

import torch
import torch.nn as nn
from torch.nn import functional as F

batch_size, context, vocab = 8, 5, 20
micro_batches = 4
max_iters = 20


class ContextModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok = nn.Embedding(vocab, 24)
        self.ff = nn.Sequential(nn.Linear(24 * context, 48), nn.ReLU(), nn.Linear(48, vocab))

    def forward(self, idx, targets):
        logits = self.ff(self.tok(idx).flatten(1))
        return logits, F.cross_entropy(logits, targets)


def get_batch(generator):
    rows = torch.randint(0, vocab, (batch_size, context), generator=generator)
    return rows, (rows[:, 0] + rows[:, -1]) % vocab


if __name__ == "__main__":
    torch.manual_seed(7)
    generator = torch.Generator().manual_seed(7)
    model = ContextModel()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.1)
    for it in range(max_iters):
        optimizer.zero_grad(set_to_none=True)
        for _ in range(micro_batches):
            xb, yb = get_batch(generator)
            _, loss = model(xb, yb)
            loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if it % 5 == 0:
            print(f"step {it} | loss {loss.item():.3f}")
