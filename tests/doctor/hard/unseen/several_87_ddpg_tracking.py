# kind: several
# expect: foreign-gradients
# why: The actor's loss leaves gradients in the critic, nobody clears them, and the next critic step uses them with its own.
"""Deep deterministic policy gradient on a noisy tracking task with a replay buffer."""
from __future__ import annotations

import argparse
import copy
from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

OBS, ACT = 4, 1


class TrackingEnv:
    """A cart with drag follows a slowly moving reference."""

    def __init__(self, n: int, seed: int, horizon: int = 40) -> None:
        self.n, self.horizon = n, horizon
        self.gen = torch.Generator().manual_seed(seed)

    def reset(self) -> Tensor:
        self.t = 0
        self.x = torch.randn(self.n, generator=self.gen) * 0.5
        self.v = torch.zeros(self.n)
        self.ref = torch.randn(self.n, generator=self.gen) * 0.5
        self.drift = torch.randn(self.n, generator=self.gen) * 0.02
        return self.observe()

    def observe(self) -> Tensor:
        return torch.stack([self.ref - self.x, self.v * 3, self.drift * 20, self.x], 1)

    def step(self, action: Tensor) -> tuple[Tensor, Tensor, bool]:
        self.v = 0.9 * self.v + 0.1 * action.squeeze(1) + 0.01 * torch.randn(self.n, generator=self.gen)
        self.x = (self.x + self.v).clamp(-2, 2)
        self.ref = (self.ref + self.drift).clamp(-1.5, 1.5)
        self.t += 1
        reward = -(self.ref - self.x).abs() - 0.05 * action.square().squeeze(1)
        return self.observe(), reward, self.t >= self.horizon


class Replay:
    def __init__(self, capacity: int) -> None:
        self.capacity, self.size, self.at = capacity, 0, 0
        self.data = {
            "obs": torch.zeros(capacity, OBS),
            "act": torch.zeros(capacity, ACT),
            "rew": torch.zeros(capacity),
            "nxt": torch.zeros(capacity, OBS),
        }

    def add(self, **rows: Tensor) -> None:
        n = len(rows["rew"])
        where = torch.arange(self.at, self.at + n) % self.capacity
        for key, value in rows.items():
            self.data[key][where] = value
        self.at = (self.at + n) % self.capacity
        self.size = min(self.size + n, self.capacity)

    def sample(self, n: int) -> dict[str, Tensor]:
        rows = torch.randint(0, self.size, (n,))
        return {key: value[rows] for key, value in self.data.items()}


class Actor(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(OBS, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU(), nn.Linear(48, ACT))

    def forward(self, obs: Tensor) -> Tensor:
        return self.net(obs).tanh()


class Critic(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(OBS + ACT, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, obs: Tensor, act: Tensor) -> Tensor:
        return self.net(torch.cat([obs, act], 1)).squeeze(1)


class Agent:
    def __init__(self, lr: float, gamma: float, tau: float, effort: float = 0.01) -> None:
        self.gamma, self.tau, self.effort = gamma, tau, effort
        self.actor, self.critic = Actor(), Critic()
        self.actor_target = copy.deepcopy(self.actor).requires_grad_(False)
        self.critic_target = copy.deepcopy(self.critic).requires_grad_(False)
        self.actor_opt = torch.optim.Adam(self.actor.parameters(), lr=lr)
        self.critic_opt = torch.optim.Adam(self.critic.parameters(), lr=2 * lr)

    @staticmethod
    def apply(loss: Tensor, opt: torch.optim.Optimizer) -> float:
        loss.backward()
        opt.step()
        opt.zero_grad()
        return loss.item()

    @torch.no_grad()
    def follow(self, pairs: Iterable[tuple[nn.Module, nn.Module]]) -> None:
        for target, live in pairs:
            for a, b in zip(target.parameters(), live.parameters()):
                a.lerp_(b, self.tau)

    def learn(self, batch: dict[str, Tensor]) -> tuple[float, float]:
        with torch.no_grad():
            future = self.critic_target(batch["nxt"], self.actor_target(batch["nxt"]))
            goal = batch["rew"] + self.gamma * future
        critic_loss = F.mse_loss(self.critic(batch["obs"], batch["act"]), goal)
        critic_value = self.apply(critic_loss, self.critic_opt)
        action = self.actor(batch["obs"])
        actor_loss = -0.05 * self.critic(batch["obs"], action).mean() + self.effort * action.square().mean()
        actor_value = self.apply(actor_loss, self.actor_opt)
        self.follow([(self.actor_target, self.actor), (self.critic_target, self.critic)])
        return critic_value, actor_value

    @torch.no_grad()
    def evaluate(self) -> float:
        self.actor.eval()
        env = TrackingEnv(100, seed=4242)
        obs, done, total = env.reset(), False, torch.zeros(100)
        while not done:
            obs, reward, done = env.step(self.actor(obs))
            total += reward
        self.actor.train()
        return total.mean().item()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=1200)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--noise", type=float, default=0.3)
    parser.add_argument("--lr", type=float, default=5e-4)
    args = parser.parse_args()
    torch.manual_seed(13)
    torch.set_num_threads(1)
    env, buffer, agent = TrackingEnv(8, seed=13), Replay(8000), Agent(args.lr, gamma=0.9, tau=0.02)
    obs = env.reset()
    for step in range(1, args.steps + 101):
        with torch.no_grad():
            action = (agent.actor(obs) + args.noise * torch.randn(env.n, ACT)).clamp(-1, 1)
        nxt, reward, done = env.step(action)
        buffer.add(obs=obs, act=action, rew=reward, nxt=nxt)
        obs = env.reset() if done else nxt
        if step <= 100:
            continue
        critic_loss, actor_loss = agent.learn(buffer.sample(args.batch))
        if step % 200 == 100:
            print(f"step {step} critic {critic_loss:.4f} actor {actor_loss:.4f} return {agent.evaluate():.3f}")


if __name__ == "__main__":
    main()
