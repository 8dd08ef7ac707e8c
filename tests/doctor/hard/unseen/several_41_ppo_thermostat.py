# kind: several losses and optimizers
# expect: clip-of-nothing
# why: `weights` is an itertools.chain that the optimizer has already exhausted; clip_grad_norm_ gets an
#      empty iterator every time and clips nothing.
import itertools
from types import SimpleNamespace

import torch
import torch.nn as nn
from torch.distributions import Normal

torch.set_num_threads(1)

cfg = SimpleNamespace(
    seed=31, envs=32, horizon=32, iterations=16, ppo_epochs=4, minibatch=128,
    gamma=0.9, lam=0.9, clip=0.2, value_coef=0.5, entropy_coef=0.003, lr=2e-3, max_norm=0.5,
)


class Building:
    """Keep the inside temperature at zero while the outside wanders (all in normalised units)."""

    def __init__(self, n, seed):
        self.g = torch.Generator().manual_seed(seed)
        self.inside = torch.randn(n, generator=self.g)
        self.outside = torch.randn(n, generator=self.g)

    def observe(self):
        return torch.stack([self.inside, self.outside], 1)

    def step(self, heat):
        heat = heat.squeeze(1).clamp(-2, 2)
        noise = torch.randn(2, len(heat), generator=self.g)
        self.outside = 0.95 * self.outside + 0.3 * noise[0]
        self.inside = 0.8 * self.inside + 0.15 * self.outside + 0.3 * heat + 0.05 * noise[1]
        return -(self.inside ** 2 + 0.02 * heat ** 2)


def mlp(sizes):
    layers = []
    for i, o in zip(sizes, sizes[1:]):
        layers += [nn.Linear(i, o), nn.Tanh()]
    return nn.Sequential(*layers[:-1])


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.mean = mlp([2, 48, 48, 1])
        self.log_std = nn.Parameter(torch.full((1,), -0.5))

    def forward(self, s):
        return Normal(self.mean(s), self.log_std.exp())


@torch.no_grad()
def rollout(env, policy, value):
    S, A, LP, R, V = [], [], [], [], []
    for _ in range(cfg.horizon):
        s = env.observe()
        dist = policy(s)
        a = dist.sample()
        S.append(s), A.append(a), LP.append(dist.log_prob(a).squeeze(1)), V.append(value(s).squeeze(1))
        R.append(env.step(a))
    V.append(value(env.observe()).squeeze(1))
    adv, last = [], torch.zeros(cfg.envs)
    for t in reversed(range(cfg.horizon)):
        delta = R[t] + cfg.gamma * V[t + 1] - V[t]
        last = delta + cfg.gamma * cfg.lam * last
        adv.insert(0, last)
    adv = torch.cat(adv)
    returns = adv + torch.cat(V[:-1])
    return torch.cat(S), torch.cat(A), torch.cat(LP), (adv - adv.mean()) / (adv.std() + 1e-8), returns, torch.stack(R).mean()


@torch.no_grad()
def evaluate(policy, steps=60):
    env, total = Building(64, seed=10_000), 0.0
    for _ in range(steps):
        total += env.step(policy(env.observe()).mean).mean().item()
    return total / steps


torch.manual_seed(cfg.seed)
policy, value = Policy(), mlp([2, 48, 48, 1])
weights = itertools.chain(policy.parameters(), value.parameters())
optimizer = torch.optim.Adam(weights, lr=cfg.lr, eps=1e-5)
env = Building(cfg.envs, cfg.seed)

for it in range(cfg.iterations):
    s, a, old_lp, adv, ret, reward = rollout(env, policy, value)
    for _ in range(cfg.ppo_epochs):
        for idx in torch.randperm(len(s)).split(cfg.minibatch):
            dist = policy(s[idx])
            ratio = (dist.log_prob(a[idx]).squeeze(1) - old_lp[idx]).exp()
            surrogate = torch.min(ratio * adv[idx], ratio.clamp(1 - cfg.clip, 1 + cfg.clip) * adv[idx])
            policy_loss = -surrogate.mean()
            value_loss = (value(s[idx]).squeeze(1) - ret[idx]).pow(2).mean()
            entropy = dist.entropy().mean()
            loss = policy_loss + cfg.value_coef * value_loss - cfg.entropy_coef * entropy
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(weights, cfg.max_norm)
            optimizer.step()
    print(f"iteration {it:2d} reward {reward:.3f} value loss {value_loss.item():.3f}"
          f" entropy {entropy.item():.2f} | evaluation {evaluate(policy):.3f}")
