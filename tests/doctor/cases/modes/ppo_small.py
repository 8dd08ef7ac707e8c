import torch
from torch import nn
from torch.distributions import Categorical


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Dropout(0.05))
        self.pi = nn.Linear(32, 2)
        self.v = nn.Linear(32, 1)

    def forward(self, obs):
        h = self.body(obs)
        return Categorical(logits=self.pi(h)), self.v(h).squeeze(-1)


def rollout(policy, n=64):
    obs = torch.randn(n, 4)
    with torch.no_grad():
        dist, value = policy(obs)
        action = dist.sample()
        logp = dist.log_prob(action)
    reward = ((obs[:, 0] > 0).long() == action).float()
    return obs, action, logp, reward - value


torch.manual_seed(5)
policy = Policy()
optimizer = torch.optim.Adam(policy.parameters(), lr=3e-3)
for update in range(12):
    obs, action, old_logp, adv = rollout(policy)
    ret = adv
    for _ in range(3):
        for idx in torch.randperm(64).split(32):
            dist, value = policy(obs[idx])
            ratio = (dist.log_prob(action[idx]) - old_logp[idx]).exp()
            gain = torch.min(ratio * adv[idx], ratio.clamp(0.8, 1.2) * adv[idx]).mean()
            loss = -gain + 0.1 * (value - ret[idx]).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(policy.parameters(), 0.5)
            optimizer.step()
    print(update, loss.item())
