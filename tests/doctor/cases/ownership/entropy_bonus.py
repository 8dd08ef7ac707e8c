"""A policy that samples without gradient, and is taught by log-probabilities and an entropy by hand."""

import torch
from torch import nn

torch.manual_seed(0)
actor = nn.Sequential(nn.Linear(6, 32), nn.Tanh(), nn.Linear(32, 4))
optimizer = torch.optim.Adam(actor.parameters(), lr=3e-3)
best = torch.randn(6, 4)
for step in range(120):
    s = torch.randn(64, 6)
    with torch.no_grad():
        action = torch.distributions.Categorical(logits=actor(s)).sample()
        reward = (s @ best).gather(1, action[:, None])[:, 0]
    logits = actor(s)
    p, logp = logits.softmax(1), logits.log_softmax(1)
    entropy = -(p * logp).sum(1)
    loss = -(logp.gather(1, action[:, None])[:, 0] * (reward - reward.mean())).mean() - 0.01 * entropy.mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
