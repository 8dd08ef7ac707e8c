"""The density of the next value at every step, from a recurrent layer; the loss is a log_prob."""

import torch
from torch import nn
from torch.distributions import Normal


class Next(nn.Module):
    def __init__(self, inputs=2, hidden=12):
        super().__init__()
        self.run = nn.GRU(inputs, hidden, batch_first=True)
        self.out = nn.Linear(hidden, 2)

    def forward(self, parts):
        h, _ = self.run(torch.cat([parts["value"], parts["hour"]], -1))
        mean, spread = self.out(h).chunk(2, -1)
        return Normal(mean, 0.05 + nn.functional.softplus(spread))


def day(n):
    hour = torch.linspace(0, 1, 25).expand(n, 25)[..., None]
    value = torch.sin(6.28 * hour + torch.rand(n, 1, 1) * 6) + 0.2 * torch.randn(n, 25, 1)
    return {"value": value, "hour": hour.clone()}


torch.manual_seed(0)
model = Next()
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
for step in range(60):
    batch = day(24)
    given = {name: each[:, :-1] for name, each in batch.items()}
    loss = -model(given).log_prob(batch["value"][:, 1:]).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
