"""One encoder, two heads: a class and a value."""

import torch
import torch.nn.functional as F
from torch import nn


class TwoHeads(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(6, 20), nn.ReLU())
        self.kind = nn.Linear(20, 3)
        self.value = nn.Linear(20, 1)

    def forward(self, x):
        h = self.encoder(x)
        return self.kind(h), self.value(h).squeeze(1)


def main():
    torch.manual_seed(0)
    model = TwoHeads()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    records = []
    for step in range(40):
        x = torch.randn(24, 6)
        kind = (x[:, 0] > 0).long() + (x[:, 1] > 0).long()
        value = x[:, 2] - x[:, 3]
        logits, guess = model(x)
        loss_kind = F.cross_entropy(logits, kind)
        loss_value = F.mse_loss(guess, value)
        optimizer.zero_grad()
        loss_kind.backward(retain_graph=True)
        loss_value.backward(retain_graph=True)
        optimizer.step()
        records.append({"step": step, "kind": loss_kind, "value": loss_value})
        if step % 10 == 9:
            recent = records[-10:]
            print(step, sum(r["kind"].item() for r in recent) / 10, sum(r["value"].item() for r in recent) / 10)


main()
