"""Two tasks on one encoder, each with its own backward pass."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Shared(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 24), nn.ReLU())
        self.left, self.right = nn.Linear(24, 2), nn.Linear(24, 1)

    def forward(self, x):
        h = self.body(x)
        return self.left(h), self.right(h).squeeze(1)


def main():
    torch.manual_seed(0)
    x = torch.randn(192, 6)
    loader = DataLoader(TensorDataset(x, (x[:, 0] > 0).long(), x[:, 1] * x[:, 2]), batch_size=16, shuffle=True)
    model = Shared()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for epoch in range(3):
        totals = [0.0, 0.0]
        for xb, kind, value in loader:
            optimizer.zero_grad()
            logits, guess = model(xb)
            first = F.cross_entropy(logits, kind)
            first.backward(retain_graph=True)
            second = F.mse_loss(guess, value)
            second.backward()
            optimizer.step()
            totals[0] += first.item()
            totals[1] += second.item()
        print(epoch, totals)


main()
