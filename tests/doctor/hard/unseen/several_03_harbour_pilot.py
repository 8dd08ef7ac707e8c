# kind: several losses and optimizers
# expect: foreign-gradients
# also: missing-zero-grad
# why: the advantage is not detached, so the actor's loss puts gradients into the critic (+logp per sample), and the
#      critic's step adds them to the gradients of its own regression: the values are pushed off the returns.
"""Advantage actor-critic; a boat on a line has to reach the berth and stay there."""
import argparse

import torch
import torch.nn.functional as F
from torch import nn
from torch.distributions import Categorical


class Harbour:
    """Vectorised: position and speed, three thrusts, reward for being near the berth."""

    def __init__(self, n, horizon):
        self.n, self.horizon = n, horizon

    def reset(self):
        self.x = torch.rand(self.n) * 2 - 1
        self.v = torch.zeros(self.n)
        self.berth = torch.rand(self.n) * 1.6 - 0.8
        return self.observe()

    def observe(self):
        return torch.stack([self.x, self.v * 5, self.berth, self.berth - self.x], 1)

    def step(self, action):
        self.v = 0.8 * self.v + 0.06 * (action.float() - 1)
        self.x = (self.x + self.v).clamp(-1.5, 1.5)
        return self.observe(), 1 - 2 * (self.x - self.berth).abs()


class Actor(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 3))

    def forward(self, obs):
        return Categorical(logits=self.net(obs))


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))

    def forward(self, obs):
        return self.net(obs).squeeze(-1)


def collect(env, actor, gamma):
    obs, all_obs, acts, rews = env.reset(), [], [], []
    with torch.no_grad():
        for _ in range(env.horizon):
            a = actor(obs).sample()
            all_obs.append(obs)
            acts.append(a)
            obs, r = env.step(a)
            rews.append(r)
    ret, returns = torch.zeros(env.n), []
    for r in reversed(rews):
        ret = (1 - gamma) * r + gamma * ret
        returns.append(ret)
    return torch.cat(all_obs), torch.cat(acts), torch.cat(returns[::-1]), torch.stack(rews).mean().item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--updates", type=int, default=300)
    ap.add_argument("--envs", type=int, default=48)
    ap.add_argument("--horizon", type=int, default=24)
    ap.add_argument("--gamma", type=float, default=0.85)
    args = ap.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)

    env, actor, critic = Harbour(args.envs, args.horizon), Actor(), Critic()
    actor_opt = torch.optim.Adam(actor.parameters(), lr=3e-3)
    critic_opt = torch.optim.Adam(critic.parameters(), lr=3e-3)

    for update in range(1, args.updates + 1):
        obs, acts, returns, mean_reward = collect(env, actor, args.gamma)
        actor_opt.zero_grad()
        critic_opt.zero_grad()

        advantage = returns - critic(obs)
        dist = actor(obs)
        actor_loss = -(dist.log_prob(acts) * advantage).mean() - 0.003 * dist.entropy().mean()
        actor_loss.backward()
        actor_opt.step()

        critic_loss = F.mse_loss(critic(obs), returns)
        critic_loss.backward()
        critic_opt.step()

        if update % 50 == 0:
            print(f"update {update:4d}  reward {mean_reward:+.3f}  critic mse {critic_loss.item():.4f}  "
                  f"bias {advantage.mean().item():+.3f}")


if __name__ == "__main__":
    main()
