# kind: several
# expect: nothing
# why: Right: the actor's loss does leave gradients in the critics, but each optimizer clears its gradients before its own backward;
#      the targets are real copies that follow slowly, the shapes agree, and the action's log-probability corrects for tanh.
"""Soft actor-critic with two critics and a tuned temperature on a point-mass simulator."""
import copy
import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class Config:
    state: int = 4
    action: int = 2
    hidden: int = 64
    envs: int = 16
    iterations: int = 900
    warmup: int = 60
    capacity: int = 12000
    batch_size: int = 128
    gamma: float = 0.95
    tau: float = 0.02
    lr: float = 1e-3
    seed: int = 23


class PointMass:
    """Several masses at once; the goal is to rest at the origin. Episodes last 40 steps and are cut, never ended."""

    def __init__(self, n, gen):
        self.n, self.gen = n, gen
        self.reset()

    def reset(self):
        self.state, self.t = torch.randn(self.n, 4, generator=self.gen).clamp(-2, 2), 0

    def step(self, action):
        pos, vel = self.state.split(2, dim=1)
        vel = 0.9 * vel + 0.3 * action + 0.02 * torch.randn(self.n, 2, generator=self.gen)
        pos = (pos + 0.3 * vel).clamp(-3, 3)
        self.state, self.t = torch.cat([pos, vel], dim=1), self.t + 1
        reward = -pos.pow(2).sum(1) * 0.3 - 0.05 * action.pow(2).sum(1)
        return self.state.clone(), reward


class Replay:
    def __init__(self, capacity, gen):
        self.capacity, self.gen, self.rows, self.pos, self.size = capacity, gen, None, 0, 0

    def add(self, *columns):
        if self.rows is None:
            self.rows = [torch.zeros(self.capacity, *c.shape[1:]) for c in columns]
        idx = (self.pos + torch.arange(len(columns[0]))) % self.capacity
        for row, column in zip(self.rows, columns):
            row[idx] = column
        self.pos = (self.pos + len(idx)) % self.capacity
        self.size = min(self.size + len(idx), self.capacity)

    def sample(self, n):
        idx = torch.randint(0, self.size, (n,), generator=self.gen)
        return [row[idx] for row in self.rows]


def mlp(inputs, hidden, outputs):
    return nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, outputs))


class Actor(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.net = mlp(cfg.state, cfg.hidden, 2 * cfg.action)

    def forward(self, state):
        mean, log_std = self.net(state).chunk(2, dim=1)
        log_std = -2 + 2 * torch.tanh(log_std)
        raw = mean + torch.randn_like(mean) * log_std.exp() if self.training else mean
        logp = (-0.5 * ((raw - mean) / log_std.exp()) ** 2 - log_std - 0.5 * math.log(2 * math.pi)).sum(1)
        squash = 2 * (math.log(2) - raw - F.softplus(-2 * raw))
        return torch.tanh(raw), logp - squash.sum(1)


class Critics(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.first = mlp(cfg.state + cfg.action, cfg.hidden, 1)
        self.second = mlp(cfg.state + cfg.action, cfg.hidden, 1)

    def forward(self, state, action):
        both = torch.cat([state, action], dim=1)
        return self.first(both).squeeze(1), self.second(both).squeeze(1)


class SAC:
    def __init__(self, cfg):
        self.cfg, self.actor, self.critics = cfg, Actor(cfg), Critics(cfg)
        self.slow = copy.deepcopy(self.critics).requires_grad_(False)
        self.log_alpha = nn.Parameter(torch.tensor(-1.0))
        self.opts = {
            "critic": torch.optim.Adam(self.critics.parameters(), lr=cfg.lr),
            "actor": torch.optim.Adam(self.actor.parameters(), lr=cfg.lr),
            "alpha": torch.optim.Adam([self.log_alpha], lr=cfg.lr),
        }

    def apply(self, name, loss):
        self.opts[name].zero_grad()
        loss.backward()
        self.opts[name].step()
        return loss.item()

    def update(self, state, action, reward, following):
        alpha = self.log_alpha.exp().detach()
        with torch.no_grad():
            next_action, next_logp = self.actor(following)
            target = reward + self.cfg.gamma * (torch.min(*self.slow(following, next_action)) - alpha * next_logp)
        q1, q2 = self.critics(state, action)
        critic = self.apply("critic", F.mse_loss(q1, target) + F.mse_loss(q2, target))
        new_action, logp = self.actor(state)
        self.apply("actor", (alpha * logp - torch.min(*self.critics(state, new_action))).mean())
        self.apply("alpha", -(self.log_alpha * (logp.detach() - self.cfg.action).mean()))
        with torch.no_grad():
            for s, p in zip(self.slow.parameters(), self.critics.parameters()):
                s.lerp_(p, self.cfg.tau)
        return critic


@torch.no_grad()
def evaluate(agent, env, steps=40):
    agent.actor.eval()
    env.reset()
    total = sum(env.step(agent.actor(env.state)[0])[1].mean().item() for _ in range(steps))
    agent.actor.train()
    return total


def main(cfg=Config()):
    torch.set_num_threads(1)
    torch.manual_seed(cfg.seed)
    gen = torch.Generator().manual_seed(cfg.seed)
    env, test_env = PointMass(cfg.envs, gen), PointMass(64, torch.Generator().manual_seed(cfg.seed + 1))
    agent, replay = SAC(cfg), Replay(cfg.capacity, gen)
    for it in range(1, cfg.iterations + 1):
        state = env.state.clone()
        with torch.no_grad():
            action = agent.actor(state)[0] if it > cfg.warmup else 2 * torch.rand(cfg.envs, cfg.action, generator=gen) - 1
        following, reward = env.step(action)
        replay.add(state, action, reward, following)
        if env.t >= 40:
            env.reset()
        if it > cfg.warmup:
            critic = agent.update(*replay.sample(cfg.batch_size))
        if it % 150 == 0:
            alpha = agent.log_alpha.exp().item()
            print(f"iteration {it:4d}  critic {critic:.4f}  alpha {alpha:.3f}  return {evaluate(agent, test_env):.2f}")


if __name__ == "__main__":
    main()
