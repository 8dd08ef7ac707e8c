# kind: no_loader
# expect: optimizer-recreated
# why: improve() makes a new Adam for every rollout to anneal the learning rate, so the moments are lost each time.
"""Proximal policy optimisation on a vectorised reaching task."""
from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.distributions import Normal


@dataclass
class PPOConfig:
    envs: int = 32
    horizon: int = 25
    iterations: int = 60
    epochs: int = 4
    minibatch: int = 200
    gamma: float = 0.97
    lam: float = 0.95
    clip: float = 0.2
    lr: float = 1.5e-3
    value_weight: float = 0.5
    entropy_weight: float = 1e-3
    max_norm: float = 0.5
    seed: int = 9


class ReachEnv:
    """A point with inertia must come to a goal and stay there."""

    def __init__(self, n: int, seed: int) -> None:
        self.n = n
        self.gen = torch.Generator().manual_seed(seed)

    def reset(self) -> Tensor:
        self.pos = torch.rand(self.n, 2, generator=self.gen) * 2 - 1
        self.vel = torch.zeros(self.n, 2)
        self.goal = torch.rand(self.n, 2, generator=self.gen) * 2 - 1
        return self.observe()

    def observe(self) -> Tensor:
        return torch.cat([self.goal - self.pos, self.vel * 2, self.pos], 1)

    def step(self, action: Tensor) -> tuple[Tensor, Tensor]:
        force = action.clamp(-1, 1)
        push = 0.02 * torch.randn(self.n, 2, generator=self.gen)
        self.vel = 0.85 * self.vel + 0.12 * force + push
        self.pos = self.pos + self.vel
        reward = -(self.goal - self.pos).norm(dim=1) - 0.02 * force.square().sum(1)
        return self.observe(), reward


def mlp(inp: int, out: int, gain: float) -> nn.Sequential:
    net = nn.Sequential(nn.Linear(inp, 48), nn.Tanh(), nn.Linear(48, 48), nn.Tanh(), nn.Linear(48, out))
    nn.init.orthogonal_(net[-1].weight, gain)
    return net


class ActorCritic(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.actor = mlp(6, 2, 0.1)
        self.critic = mlp(6, 1, 1.0)
        self.log_std = nn.Parameter(torch.full((2,), -0.7))

    def policy(self, obs: Tensor) -> Normal:
        return Normal(self.actor(obs), self.log_std.exp())

    def value(self, obs: Tensor) -> Tensor:
        return self.critic(obs).squeeze(-1)


class PPO:
    def __init__(self, cfg: PPOConfig) -> None:
        self.cfg = cfg
        self.model = ActorCritic()
        self.env = ReachEnv(cfg.envs, cfg.seed)

    def progress_lr(self, iteration: int) -> float:
        return self.cfg.lr * (1 - 0.9 * iteration / self.cfg.iterations)

    @torch.no_grad()
    def rollout(self) -> dict[str, Tensor]:
        keep: dict[str, list[Tensor]] = {k: [] for k in ("obs", "act", "logp", "rew", "val")}
        obs = self.env.reset()
        for _ in range(self.cfg.horizon):
            dist = self.model.policy(obs)
            act = dist.sample()
            nxt, rew = self.env.step(act)
            for key, item in zip(keep, (obs, act, dist.log_prob(act).sum(1), rew, self.model.value(obs))):
                keep[key].append(item)
            obs = nxt
        data = {k: torch.stack(v) for k, v in keep.items()}
        values = torch.cat([data["val"], self.model.value(obs).unsqueeze(0)])
        adv, running = torch.zeros_like(data["rew"]), torch.zeros(self.cfg.envs)
        for t in reversed(range(self.cfg.horizon)):
            delta = data["rew"][t] + self.cfg.gamma * values[t + 1] - values[t]
            running = delta + self.cfg.gamma * self.cfg.lam * running
            adv[t] = running
        data["ret"] = adv + data["val"]
        data["adv"] = (adv - adv.mean()) / (adv.std() + 1e-8)
        return {k: v.flatten(0, 1) for k, v in data.items()}

    def objective(self, b: dict[str, Tensor]) -> Tensor:
        dist = self.model.policy(b["obs"])
        ratio = (dist.log_prob(b["act"]).sum(1) - b["logp"]).exp()
        clipped = ratio.clamp(1 - self.cfg.clip, 1 + self.cfg.clip)
        actor = -torch.min(ratio * b["adv"], clipped * b["adv"]).mean()
        critic = (self.model.value(b["obs"]) - b["ret"]).square().mean()
        return actor + self.cfg.value_weight * critic - self.cfg.entropy_weight * dist.entropy().sum(1).mean()

    def improve(self, data: dict[str, Tensor], iteration: int) -> float:
        optimizer = torch.optim.Adam(self.model.parameters(), lr=self.progress_lr(iteration), eps=1e-5)
        total, count = 0.0, 0
        self.model.train()
        for _ in range(self.cfg.epochs):
            for rows in torch.randperm(len(data["obs"])).split(self.cfg.minibatch):
                loss = self.objective({k: v[rows] for k, v in data.items()})
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(self.model.parameters(), self.cfg.max_norm)
                optimizer.step()
                total, count = total + loss.item(), count + 1
        return total / count

    @torch.no_grad()
    def evaluate(self) -> float:
        self.model.eval()
        env = ReachEnv(200, 777)
        obs, total = env.reset(), torch.zeros(200)
        for _ in range(self.cfg.horizon):
            obs, rew = env.step(self.model.policy(obs).mean)
            total += rew
        return total.mean().item()


def main() -> None:
    cfg = PPOConfig()
    torch.manual_seed(cfg.seed)
    torch.set_num_threads(1)
    ppo = PPO(cfg)
    for iteration in range(cfg.iterations):
        loss = ppo.improve(ppo.rollout(), iteration)
        if iteration % 10 == 9:
            print(f"iteration {iteration + 1} loss {loss:.4f} return {ppo.evaluate():.3f}")


if __name__ == "__main__":
    main()
