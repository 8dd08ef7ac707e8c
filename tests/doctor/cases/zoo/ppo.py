import torch
from torch import nn
from torch.distributions import Normal


class ActorCritic(nn.Module):
    def __init__(self, obs=3):
        super().__init__()
        self.actor = nn.Sequential(nn.Linear(obs, 32), nn.Tanh(), nn.Linear(32, 1))
        self.critic = nn.Sequential(nn.Linear(obs, 32), nn.Tanh(), nn.Linear(32, 1))
        self.log_std = nn.Parameter(torch.zeros(1))

    def value(self, x):
        return self.critic(x).squeeze(-1)

    def evaluate(self, x, action=None):
        dist = Normal(self.actor(x), self.log_std.exp())
        if action is None:
            action = dist.sample()
        return action, dist.log_prob(action).sum(-1), dist.entropy().sum(-1), self.value(x)


def rollout(agent, envs=8, horizon=8):
    obs = torch.randn(envs, 3)
    keep = {k: [] for k in ("obs", "act", "logp", "val", "rew")}
    for _ in range(horizon):
        with torch.no_grad():
            action, logp, _, value = agent.evaluate(obs)
        reward = -(action.squeeze(-1) - obs.sum(-1)).abs()
        for k, v in zip(keep, (obs, action, logp, value, reward)):
            keep[k].append(v)
        obs = 0.9 * obs + 0.3 * torch.randn(envs, 3)
    with torch.no_grad():
        last = agent.value(obs)
    values = torch.stack([*keep["val"], last])
    advantage, gae = [], torch.zeros(envs)
    for t in reversed(range(horizon)):
        gae = keep["rew"][t] + 0.9 * values[t + 1] - values[t] + 0.9 * 0.95 * gae
        advantage.insert(0, gae)
    advantage = torch.stack(advantage)
    batch = {k: torch.stack(v).flatten(0, 1) for k, v in keep.items()}
    return batch, advantage.flatten(), (advantage + values[:-1]).flatten()


torch.manual_seed(4)
agent = ActorCritic()
optimizer = torch.optim.Adam(agent.parameters(), lr=3e-3, eps=1e-5)
for iteration in range(4):
    for group in optimizer.param_groups:
        group["lr"] = 3e-3 * (1 - iteration / 4)
    batch, advantage, returns = rollout(agent)
    for epoch in range(3):
        for rows in torch.randperm(64).split(16):
            _, logp, entropy, value = agent.evaluate(batch["obs"][rows], batch["act"][rows])
            ratio = (logp - batch["logp"][rows]).exp()
            adv = advantage[rows]
            adv = (adv - adv.mean()) / (adv.std() + 1e-8)
            policy = -torch.min(ratio * adv, ratio.clamp(0.8, 1.2) * adv).mean()
            loss = policy + 0.5 * (value - returns[rows]).pow(2).mean() - 0.01 * entropy.mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
            optimizer.step()
    print(iteration, batch["rew"].mean().item())
