"""An actor and a critic, each with an optimizer, and a slowly moving copy."""

import copy

import torch
import torch.nn.functional as F
from torch import nn


class Agent:
    def __init__(self):
        self.actor = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 1), nn.Tanh())
        self.critic = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1))
        self.actor_target, self.critic_target = copy.deepcopy(self.actor), copy.deepcopy(self.critic)
        self.actor_opt = torch.optim.Adam(self.actor.parameters(), lr=1e-3)
        self.critic_opt = torch.optim.Adam(self.critic.parameters(), lr=1e-3)

    def train(self, s, a, r, s2):
        with torch.no_grad():
            y = r + 0.9 * self.critic_target(torch.cat([s2, self.actor_target(s2)], 1))
        critic_loss = F.mse_loss(self.critic(torch.cat([s, a], 1)), y)
        self.critic_opt.zero_grad()
        critic_loss.backward()
        self.critic_opt.step()
        actor_loss = -self.critic(torch.cat([s, self.actor(s)], 1)).mean()
        self.actor_opt.zero_grad()
        actor_loss.backward()
        self.actor_opt.step()
        with torch.no_grad():
            for net, copy_ in ((self.actor, self.actor_target), (self.critic, self.critic_target)):
                for p, t in zip(net.parameters(), copy_.parameters()):
                    t.mul_(0.99).add_(p, alpha=0.01)
        return critic_loss.item(), actor_loss.item()


torch.manual_seed(0)
agent = Agent()
for step in range(40):
    s = torch.randn(16, 3)
    a = torch.rand(16, 1) * 2 - 1
    r = -((s[:, :1] - a) ** 2)
    losses = agent.train(s, a, r, s + 0.1 * torch.randn_like(s))
print(losses)
