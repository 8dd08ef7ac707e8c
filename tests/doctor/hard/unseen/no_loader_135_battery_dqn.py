# kind: no_loader
# expect: loss-broadcast
# why: The replay buffer hands out rewards and flags of shape (batch, 1), so the targets are (batch, 1), while the chosen values are squeezed to (batch,); the hand-written Huber loss compares every value with every target.
"""Double DQN for battery arbitrage on a simulated price, with a replay buffer and a target network."""
import argparse
import copy
import math
import random

import torch
from torch import Tensor, nn


class Market:
    """Sixteen batteries on one price process; actions: discharge, hold, charge."""

    def __init__(self, n: int, seed: int) -> None:
        self.n, self.gen = n, torch.Generator().manual_seed(seed)
        self.reset()

    def reset(self) -> Tensor:
        self.hour = torch.randint(0, 24, (self.n,), generator=self.gen).float()
        self.shock = 0.3 * torch.randn(self.n, generator=self.gen)
        self.charge = torch.rand(self.n, generator=self.gen)
        self.age = torch.zeros(self.n)
        return self.observe()

    def price(self) -> Tensor:
        return torch.sin(2 * math.pi * (self.hour - 9) / 24) + self.shock

    def observe(self) -> Tensor:
        angle = 2 * math.pi * self.hour / 24
        return torch.stack([angle.sin(), angle.cos(), self.price(), 2 * self.charge - 1], 1)

    def step(self, action: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        wanted = 0.25 * (action.float() - 1)
        moved = (self.charge + wanted).clamp(0, 1) - self.charge
        reward = -self.price() * moved - 0.02 * moved.abs()
        self.charge = self.charge + moved
        self.hour = (self.hour + 1) % 24
        self.shock = 0.8 * self.shock + 0.2 * torch.randn(self.n, generator=self.gen)
        self.age += 1
        done = self.age >= 48
        after = self.observe()
        if bool(done.all()):
            return after, reward, done.float(), self.reset()
        return after, reward, done.float(), after


class Replay:
    def __init__(self, size: int, obs: int) -> None:
        self.store = {
            "obs": torch.zeros(size, obs), "action": torch.zeros(size, 1, dtype=torch.long),
            "reward": torch.zeros(size, 1), "done": torch.zeros(size, 1), "after": torch.zeros(size, obs),
        }
        self.size, self.head, self.full = size, 0, False

    def __len__(self) -> int:
        return self.size if self.full else self.head

    def add(self, **rows: Tensor) -> None:
        n = rows["obs"].shape[0]
        index = (self.head + torch.arange(n)) % self.size
        for key, value in rows.items():
            self.store[key][index] = value.view(n, -1)
        self.full = self.full or self.head + n >= self.size
        self.head = (self.head + n) % self.size

    def sample(self, n: int) -> dict[str, Tensor]:
        index = torch.randint(0, len(self), (n,))
        return {key: value[index] for key, value in self.store.items()}


def q_net() -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 3))


def huber(error: Tensor, delta: float = 1.0) -> Tensor:
    size = error.abs()
    return torch.where(size < delta, 0.5 * error.square(), delta * (size - 0.5 * delta)).mean()


class Agent:
    def __init__(self, lr: float, gamma: float) -> None:
        self.online = q_net()
        self.target = copy.deepcopy(self.online).requires_grad_(False)
        self.gamma = gamma
        self.opt = torch.optim.Adam(self.online.parameters(), lr=lr)

    def learn(self, batch: dict[str, Tensor]) -> float:
        with torch.no_grad():
            choice = self.online(batch["after"]).argmax(1, keepdim=True)
            future = self.target(batch["after"]).gather(1, choice)
            goal = batch["reward"] + self.gamma * (1 - batch["done"]) * future
        value = self.online(batch["obs"]).gather(1, batch["action"]).squeeze(1)
        loss = huber(value - goal)
        self.opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.online.parameters(), 10.0)
        self.opt.step()
        with torch.no_grad():
            for t, p in zip(self.target.parameters(), self.online.parameters(), strict=True):
                t.lerp_(p, 0.01)
        return loss.item()

    @torch.no_grad()
    def act(self, obs: Tensor, explore: float) -> Tensor:
        greedy = self.online(obs).argmax(1)
        chance = torch.rand(obs.shape[0]) < explore
        return torch.where(chance, torch.randint(0, 3, greedy.shape), greedy)


@torch.no_grad()
def evaluate(agent: Agent, seed: int) -> float:
    agent.online.eval()
    market = Market(64, seed)
    obs, total = market.observe(), torch.zeros(64)
    for _ in range(48):
        _, reward, _, obs = market.step(agent.act(obs, 0.0))
        total += reward
    agent.online.train()
    return total.mean().item()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=1600)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--lr", type=float, default=1e-3)
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(13)
    random.seed(13)
    agent, market, replay = Agent(args.lr, gamma=0.95), Market(16, 13), Replay(12_000, 4)
    obs, recent = market.observe(), 0.0
    for step in range(1, args.steps + 1):
        action = agent.act(obs, max(0.05, 1 - step / 800))
        after, reward, done, following = market.step(action)
        replay.add(obs=obs, action=action, reward=reward, done=done, after=after)
        obs = following
        if len(replay) >= 1000:
            recent = agent.learn(replay.sample(args.batch))
        if step % 200 == 0:
            print(f"step {step:5d} loss {recent:.4f} profit per battery {evaluate(agent, 900):.3f}")


if __name__ == "__main__":
    main()
