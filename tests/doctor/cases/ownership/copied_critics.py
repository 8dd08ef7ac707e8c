"""The target critics are a list of copies."""

import copy

import torch
from torch import nn
from torch.nn import functional as F


class Agent:
    def __init__(self):
        self.critics = [nn.Linear(5, 3), nn.Linear(5, 3)]
        self.target_critics = copy.deepcopy(self.critics)
        self.optimizer = torch.optim.Adam([p for c in self.critics for p in c.parameters()], lr=1e-3)

    def learn(self, state, action, reward, following):
        with torch.no_grad():
            goal = reward + 0.9 * torch.min(*[c(following) for c in self.target_critics]).max(1).values
        loss = sum(F.mse_loss(c(state).gather(1, action)[:, 0], goal) for c in self.critics)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        with torch.no_grad():
            for slow, fast in zip(self.target_critics, self.critics):
                for a, b in zip(slow.parameters(), fast.parameters()):
                    a.lerp_(b, 0.01)


torch.manual_seed(2)
agent = Agent()
for _ in range(40):
    state, following = torch.randn(2, 32, 5)
    agent.learn(state, torch.randint(3, (32, 1)), state[:, 0], following)
