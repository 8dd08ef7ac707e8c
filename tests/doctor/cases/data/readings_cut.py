"""A bidirectional GRU that predicts the next reading of a sensor; the first ten are left out of a loss by hand."""

import torch
from torch import nn

torch.manual_seed(0)


class Forecaster(nn.Module):
    def __init__(self, both: bool) -> None:
        super().__init__()
        self.rnn = nn.GRU(3, 24, batch_first=True, bidirectional=both)
        self.out = nn.Linear(48 if both else 24, 1)

    def forward(self, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        return self.out(self.rnn(batch["readings"])[0]).squeeze(-1)


def windows(count: int) -> torch.Tensor:
    walk = torch.randn(count, 41, 3).cumsum(1) * 0.2
    return walk + 0.1 * torch.randn_like(walk)


model = Forecaster(both=True)
optimizer = torch.optim.NAdam(model.parameters(), lr=2e-3)
for step in range(60):
    cut = windows(24)
    batch = {"readings": cut[:, :-1], "next": cut[:, 1:, 1]}
    error = model(batch)[:, 10:] - batch["next"][:, 10:]
    loss = error.pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
