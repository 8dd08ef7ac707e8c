# kind: several
# expect: foreign-gradients
# why: The actor's loss is backpropagated through the critic, and the critic's gradients are cleared only right after the critic's
#      own step, so every critic step adds the gradients that the actor loss left there.
"""Deterministic policy gradient for a planar gripper that has to reach random goals."""
import argparse
import copy
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F


@dataclass
class Config:
    envs: int = 16
    horizon: int = 40
    updates: int = 900
    warmup: int = 60
    actor_start: int = 200
    batch: int = 128
    gamma: float = 0.95
    tau: float = 0.02
    noise: float = 0.2
    actor_lr: float = 5e-4
    critic_lr: float = 2e-3
    seed: int = 3


class ReachEnv:
    """Point gripper with damped velocity; the observation is position, velocity and the way to the goal."""

    def __init__(self, n: int, horizon: int, gen: torch.Generator) -> None:
        self.n, self.horizon, self.gen = n, horizon, gen
        self.reset()

    def reset(self) -> Tensor:
        self.pos = torch.rand(self.n, 2, generator=self.gen) * 2 - 1
        self.goal = torch.rand(self.n, 2, generator=self.gen) * 2 - 1
        self.vel = torch.zeros(self.n, 2)
        self.t = 0
        return self.observe()

    def observe(self) -> Tensor:
        return torch.cat([self.pos, self.vel * 4, self.goal - self.pos], dim=1)

    def step(self, action: Tensor) -> tuple[Tensor, Tensor, bool]:
        self.vel = 0.8 * self.vel + 0.05 * action
        self.pos = (self.pos + self.vel).clamp(-1.5, 1.5)
        self.t += 1
        reward = -5 * (self.goal - self.pos).norm(dim=1) - 0.1 * action.pow(2).sum(1)
        return self.observe(), reward, self.t >= self.horizon


class Replay:
    def __init__(self, capacity: int, obs: int, act: int, gen: torch.Generator) -> None:
        self.store = {
            "obs": torch.zeros(capacity, obs), "act": torch.zeros(capacity, act),
            "rew": torch.zeros(capacity, 1), "nxt": torch.zeros(capacity, obs),
        }
        self.capacity, self.size, self.head, self.gen = capacity, 0, 0, gen

    def add(self, **rows: Tensor) -> None:
        n = len(rows["obs"])
        index = (self.head + torch.arange(n)) % self.capacity
        for key, value in rows.items():
            self.store[key][index] = value
        self.head = (self.head + n) % self.capacity
        self.size = min(self.size + n, self.capacity)

    def sample(self, n: int) -> dict[str, Tensor]:
        rows = torch.randint(self.size, (n,), generator=self.gen)
        return {key: value[rows] for key, value in self.store.items()}


def mlp(inputs: int, outputs: int, *tail: nn.Module) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, outputs), *tail)


class Agent:
    def __init__(self, cfg: Config, obs: int = 6, act: int = 2) -> None:
        self.cfg, self.done = cfg, 0
        self.actor, self.critic = mlp(obs, act, nn.Tanh()), mlp(obs + act, 1)
        self.actor_target = copy.deepcopy(self.actor).requires_grad_(False)
        self.critic_target = copy.deepcopy(self.critic).requires_grad_(False)
        self.actor_opt = torch.optim.Adam(self.actor.parameters(), lr=cfg.actor_lr)
        self.critic_opt = torch.optim.Adam(self.critic.parameters(), lr=cfg.critic_lr)

    def update(self, batch: dict[str, Tensor]) -> float:
        obs, act = batch["obs"], batch["act"]
        with torch.no_grad():
            nxt = torch.cat([batch["nxt"], self.actor_target(batch["nxt"])], 1)
            target = batch["rew"] + self.cfg.gamma * self.critic_target(nxt)
        critic_loss = F.mse_loss(self.critic(torch.cat([obs, act], 1)), target)
        critic_loss.backward()
        self.critic_opt.step()
        self.critic_opt.zero_grad()
        self.follow(self.critic, self.critic_target)
        self.done += 1
        if self.done < self.cfg.actor_start:
            return critic_loss.item()

        value = self.critic(torch.cat([obs, self.actor(obs)], 1))
        actor_loss = -value.mean() / value.abs().mean().detach()
        actor_loss.backward()
        self.actor_opt.step()
        self.actor_opt.zero_grad()

        self.follow(self.actor, self.actor_target)
        return critic_loss.item()

    @torch.no_grad()
    def follow(self, live: nn.Module, target: nn.Module) -> None:
        for a, b in zip(live.parameters(), target.parameters(), strict=True):
            b.lerp_(a, self.cfg.tau)


@torch.no_grad()
def evaluate(agent: Agent, horizon: int) -> tuple[float, float]:
    agent.actor.eval()
    env = ReachEnv(64, horizon, torch.Generator().manual_seed(999))
    obs, done, total = env.reset(), False, torch.zeros(64)
    while not done:
        obs, reward, done = env.step(agent.actor(obs))
        total += reward
    agent.actor.train()
    return float(total.mean()), float((env.goal - env.pos).norm(dim=1).mean())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--updates", type=int, default=Config.updates)
    cfg = Config(updates=parser.parse_args().updates)
    torch.set_num_threads(1)
    torch.manual_seed(cfg.seed)
    gen = torch.Generator().manual_seed(cfg.seed)
    env, agent, replay = ReachEnv(cfg.envs, cfg.horizon, gen), Agent(cfg), Replay(20_000, 6, 2, gen)
    obs = env.observe()
    for step in range(cfg.warmup + cfg.updates):
        with torch.no_grad():
            action = agent.actor(obs) if step >= cfg.warmup else torch.rand(cfg.envs, 2, generator=gen) * 2 - 1
            action = (action + cfg.noise * torch.randn(cfg.envs, 2, generator=gen)).clamp(-1, 1)
        nxt, reward, done = env.step(action)
        replay.add(obs=obs, act=action, rew=reward[:, None], nxt=nxt)
        obs = env.reset() if done else nxt
        if step < cfg.warmup:
            continue
        loss = agent.update(replay.sample(cfg.batch))
        if (step + 1) % 120 == 0:
            ret, miss = evaluate(agent, cfg.horizon)
            print(f"step {step + 1:5d} critic {loss:.4f} return {ret:.2f} miss {miss:.3f}")


if __name__ == "__main__":
    main()
