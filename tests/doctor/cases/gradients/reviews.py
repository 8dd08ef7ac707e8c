"""Sentiment of made-up reviews as bags of words."""

import torch
import torch.nn.functional as F
from torch import nn


class BagOfWords(nn.Module):
    def __init__(self, vocab, dim):
        super().__init__()
        self.bag = nn.EmbeddingBag(vocab, dim, mode="mean")
        self.out = nn.Linear(dim, 1)

    def forward(self, tokens):
        return self.out(self.bag(tokens)).squeeze(1)


class Learner:
    """Runs the updates; an update happens after `every` calls of `learn`."""

    def __init__(self, model, every):
        self.model, self.every, self.calls = model, every, 0
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)

    def learn(self, tokens, label):
        self.model.train()
        self.calls += 1
        self.model.zero_grad()
        loss = F.binary_cross_entropy_with_logits(self.model(tokens), label)
        (loss / self.every).backward()
        if self.calls % self.every == 0:
            nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.step()
        return loss.item()


def batches(tokens, labels, size):
    order = torch.randperm(len(tokens))
    for start in range(0, len(order), size):
        pick = order[start : start + size]
        yield tokens[pick], labels[pick]


torch.manual_seed(21)
tokens = torch.randint(0, 50, (240, 12))
labels = ((tokens < 15).sum(1) > 3).float()
learner = Learner(BagOfWords(50, 16), every=2)
for epoch in range(6):
    losses = [learner.learn(t, l) for t, l in batches(tokens, labels, 12)]
    print("epoch", epoch, "loss", round(sum(losses) / len(losses), 3))
