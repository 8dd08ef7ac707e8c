"""REINFORCE on a tiny balancing task: the loss of an episode is made of all its steps."""

import torch
from torch import nn
from torch.distributions import Categorical


class Balance:
    def reset(self):
        self.x, self.t = torch.randn(2) * 0.1, 0
        return self.x.clone()

    def step(self, action):
        push = 0.1 if action == 1 else -0.1
        self.x = torch.stack([self.x[0] + 0.1 * self.x[1], self.x[1] + push + 0.05 * self.x[0]])
        self.t += 1
        return self.x.clone(), 1.0 - abs(self.x[0].item()), self.t >= 12 or abs(self.x[0].item()) > 1


torch.manual_seed(3)
policy = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 2))
optimizer = torch.optim.Adam(policy.parameters(), lr=5e-3)
env = Balance()
scores = []
for episode in range(35):
    log_probs, rewards = [], []
    state, done = env.reset(), False
    while not done:
        dist = Categorical(logits=policy(state))
        action = dist.sample()
        log_probs.append(dist.log_prob(action))
        state, reward, done = env.step(action.item())
        rewards.append(reward)
    returns, g = [], 0.0
    for r in reversed(rewards):
        g = r + 0.95 * g
        returns.insert(0, g)
    returns = torch.tensor(returns)
    returns = (returns - returns.mean()) / (returns.std() + 1e-6)
    policy_loss = []
    for lp, ret in zip(log_probs, returns):
        policy_loss.append(-lp * ret)
    optimizer.zero_grad()
    loss = torch.stack(policy_loss).sum()
    loss.backward()
    optimizer.step()
    scores.append(sum(rewards))
print("mean of the last five", sum(scores[-5:]) / 5)
