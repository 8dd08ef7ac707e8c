"""One encoder under two names, two heads on one body, and a target network that is a copy."""

import copy

import torch
import torch.nn as nn
import torch.nn.functional as F


class Siamese(nn.Module):
    def __init__(self, encoder):
        super().__init__()
        self.left = encoder
        self.right = encoder

    def forward(self, a, b):
        return (F.normalize(self.left(a), dim=1) * F.normalize(self.right(b), dim=1)).sum(1)


torch.manual_seed(0)
encoder = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 8))
pairs = Siamese(encoder)
actor = nn.Sequential(encoder, nn.Linear(8, 2))
critic = nn.Sequential(encoder, nn.Linear(8, 1))
target = copy.deepcopy(critic).requires_grad_(False)
params = {id(p): p for m in (pairs, actor, critic) for p in m.parameters()}
optimizer = torch.optim.Adam(params.values(), lr=1e-3)
x = torch.randn(200, 6)
for step in range(40):
    xb = x[torch.randint(0, 200, (20,))]
    same = pairs(xb, xb + 0.1 * torch.randn_like(xb))
    with torch.no_grad():
        value = target(xb).squeeze(1)
        reward = xb[:, 0] + 0.9 * value
    loss = (1 - same).mean() + F.mse_loss(critic(xb).squeeze(1), reward)
    loss = loss + F.cross_entropy(actor(xb), (xb[:, 1] > 0).long())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 9:
        target.load_state_dict(critic.state_dict())
        print(step, loss.item())
