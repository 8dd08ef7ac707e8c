"""A policy that must stay near its reference, which a configuration holds."""

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(11)
policy = nn.Sequential(nn.Linear(5, 32), nn.ReLU(), nn.Linear(32, 4))
warm = torch.optim.Adam(policy.parameters(), lr=1e-2)
x = torch.randn(256, 5)
for step in range(30):
    loss = F.cross_entropy(policy(x), x[:, :4].argmax(1))
    warm.zero_grad()
    loss.backward()
    warm.step()
run = {"reference": policy, "near": 0.5}
optimizer = torch.optim.Adam(policy.parameters(), lr=1e-3)
for step in range(60):
    states = torch.randn(64, 5)
    scores = policy(states)
    actions = torch.distributions.Categorical(logits=scores).sample()
    reward = (actions == states[:, :4].argmin(1)).float()
    gain = -(F.log_softmax(scores, 1)[torch.arange(64), actions] * (reward - reward.mean())).mean()
    with torch.no_grad():
        wanted = run["reference"](states).softmax(1)
    loss = gain + run["near"] * F.cross_entropy(scores, wanted)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(reward.mean().item())
