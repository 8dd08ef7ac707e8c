"""A frozen feature extractor with a head; the norm is limited over the whole model."""

import argparse

import torch
from torch import nn


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.base = nn.Sequential(nn.Linear(10, 20), nn.ReLU())
        self.head = nn.Linear(20, 3)
        self.aux = nn.Linear(20, 3)

    def forward(self, x, use_aux=False):
        h = self.base(x)
        return self.aux(h) if use_aux else self.head(h)


parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=36)
args = parser.parse_args()
torch.manual_seed(0)
model = Classifier()
for p in model.base.parameters():
    p.requires_grad = False
optimizer = torch.optim.AdamW(filter(lambda p: p.requires_grad, model.parameters()), lr=1e-2)
mixing = torch.randn(10, 3)
for step in range(args.steps):
    x = torch.randn(16, 10)
    loss = nn.functional.cross_entropy(model(x, use_aux=step % 3 == 0), (x @ mixing).argmax(1))
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    torch.nn.utils.clip_grad_norm_(model.base.parameters(), 1.0)
    optimizer.step()
print("loss", loss.item())
