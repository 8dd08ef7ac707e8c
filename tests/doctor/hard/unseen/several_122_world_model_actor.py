# kind: several
# expect: foreign-gradients
# why: The actor's loss is back-propagated through the world model and leaves gradients in it; the world model's gradients are
#   cleared before that and not again, so its next step adds the actor's gradients to its own.
"""Model-based control of a pendulum: learn the dynamics from a replay buffer, train the actor in imagination."""
import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass
class Config:
    width: int = 64
    horizon: int = 8
    batch: int = 128
    steps: int = 400
    collect_every: int = 20
    envs: int = 16
    episode: int = 40
    model_lr: float = 1e-3
    actor_lr: float = 1e-3
    precision: float = 1000.0


class Pendulum:
    """A batch of torque-driven pendulums; the observation is (cos, sin, speed / 8)."""

    def __init__(self, n: int, seed: int) -> None:
        self.n, self.g = n, torch.Generator().manual_seed(seed)

    def reset(self) -> Tensor:
        self.angle = (2 * torch.rand(self.n, generator=self.g) - 1) * math.pi
        self.speed = 2 * torch.rand(self.n, generator=self.g) - 1
        return self.observe()

    def observe(self) -> Tensor:
        return torch.stack([self.angle.cos(), self.angle.sin(), self.speed / 8], -1)

    def step(self, action: Tensor) -> Tensor:
        torque = 3.0 * action.squeeze(-1)
        self.speed = (self.speed + 0.05 * (7.5 * self.angle.sin() + 3.0 * torque)).clamp(-8, 8)
        self.angle = self.angle + 0.05 * self.speed
        return self.observe()


def reward(obs: Tensor, action: Tensor) -> Tensor:
    return obs[..., 0] - 0.5 * obs[..., 2] ** 2 - 0.01 * action.squeeze(-1) ** 2


def mlp(n_in: int, width: int, n_out: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(n_in, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU(), nn.Linear(width, n_out))


class Dynamics(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.net = mlp(4, width, 3)

    def forward(self, obs: Tensor, action: Tensor) -> Tensor:
        after = obs + 0.3 * torch.tanh(self.net(torch.cat([obs, action], -1)))
        return torch.cat([F.normalize(after[..., :2], dim=-1), after[..., 2:].clamp(-1.0, 1.0)], -1)


class Actor(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.net = mlp(3, width, 1)

    def forward(self, obs: Tensor) -> Tensor:
        return torch.tanh(self.net(obs))


class Replay:
    def __init__(self, size: int) -> None:
        self.obs, self.action, self.after = torch.zeros(size, 3), torch.zeros(size, 1), torch.zeros(size, 3)
        self.size, self.count, self.at = size, 0, 0

    def add(self, obs: Tensor, action: Tensor, after: Tensor) -> None:
        rows = (self.at + torch.arange(len(obs))) % self.size
        self.obs[rows], self.action[rows], self.after[rows] = obs, action, after
        self.at = (self.at + len(obs)) % self.size
        self.count = min(self.size, self.count + len(obs))

    def sample(self, n: int) -> tuple[Tensor, Tensor, Tensor]:
        rows = torch.randint(self.count, (n,))
        return self.obs[rows], self.action[rows], self.after[rows]


@torch.no_grad()
def rollout(actor: nn.Module, env: Pendulum, length: int, noise: float, replay: Replay | None = None) -> float:
    actor.eval()
    obs, total = env.reset(), 0.0
    for _ in range(length):
        action = actor(obs)
        if noise > 0:
            action = (action + noise * torch.randn(action.shape, generator=env.g)).clamp(-1, 1)
        after = env.step(action)
        total += reward(after, action).mean().item()
        if replay is not None:
            replay.add(obs, action, after)
        obs = after
    actor.train()
    return total / length


class Agent:
    def __init__(self, cfg: Config) -> None:
        self.cfg = cfg
        self.dynamics, self.actor = Dynamics(cfg.width), Actor(cfg.width)
        self.model_opt = torch.optim.Adam(self.dynamics.parameters(), lr=cfg.model_lr)
        self.actor_opt = torch.optim.Adam(self.actor.parameters(), lr=cfg.actor_lr)

    def learn_dynamics(self, obs: Tensor, action: Tensor, after: Tensor) -> float:
        loss = 0.5 * self.cfg.precision * F.mse_loss(self.dynamics(obs, action), after)
        loss.backward()
        self.model_opt.step()
        self.model_opt.zero_grad()
        return loss.item()

    def learn_actor(self, obs: Tensor) -> float:
        rewards = []
        for _ in range(self.cfg.horizon):
            action = self.actor(obs)
            obs = self.dynamics(obs, action)
            rewards.append(reward(obs, action))
        loss = -torch.stack(rewards).mean()
        loss.backward()
        self.actor_opt.step()
        self.actor_opt.zero_grad()
        return loss.item()

    @torch.no_grad()
    def model_error(self, held_out: Replay) -> float:
        self.dynamics.eval()
        n = held_out.count
        error = F.mse_loss(self.dynamics(held_out.obs[:n], held_out.action[:n]), held_out.after[:n]).sqrt().item()
        self.dynamics.train()
        return error


def main() -> None:
    cfg = Config()
    torch.manual_seed(6)
    torch.set_num_threads(1)
    agent, env, replay = Agent(cfg), Pendulum(cfg.envs, 1), Replay(20000)
    held_out = Replay(2000)
    rollout(agent.actor, Pendulum(32, 2), cfg.episode, 0.7, held_out)
    rollout(agent.actor, env, cfg.episode, 0.7, replay)
    for step in range(1, cfg.steps + 1):
        if step % cfg.collect_every == 0:
            rollout(agent.actor, env, cfg.episode, 0.3, replay)
        model_loss = agent.learn_dynamics(*replay.sample(cfg.batch))
        actor_loss = agent.learn_actor(replay.sample(cfg.batch)[0])
        if step % 100 == 0:
            score = rollout(agent.actor, Pendulum(64, 3), 80, 0.0)
            print(
                f"step {step} model loss {model_loss:.4f} actor loss {actor_loss:.4f} "
                f"held-out rmse {agent.model_error(held_out):.4f} reward {score:.3f}"
            )


if __name__ == "__main__":
    main()
