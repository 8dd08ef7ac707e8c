# kind: no_loader
# expect: loss-broadcast
# why: q.gather(1, action) has shape (batch, 1) while the bootstrapped target has shape (batch,), so the hand-written Huber
#      loss compares every prediction with every target of the batch.
"""Double DQN on a small docking simulator, with a replay buffer and a slowly moving target network."""
import copy
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import nn


@dataclass(frozen=True)
class Config:
    seed: int = 4
    env_steps: int = 3000
    warmup: int = 500
    capacity: int = 3000
    batch_size: int = 64
    gamma: float = 0.95
    tau: float = 0.01
    lr: float = 1e-3
    eps_start: float = 1.0
    eps_end: float = 0.05
    eval_every: int = 750


class Docking:
    """A cart on a line must stop at the origin; actions push left, right or not at all."""

    limit, horizon, actions = 2.0, 60, 3

    def __init__(self, rng):
        self.rng = rng

    def reset(self):
        self.state = np.array([self.rng.uniform(-1.5, 1.5), self.rng.uniform(-0.5, 0.5)], dtype=np.float32)
        self.t = 0
        return self.state.copy()

    def step(self, action):
        x, v = self.state
        v = 0.98 * v + 0.12 * (action - 1) + 0.01 * self.rng.normal()
        x = x + 0.15 * v
        self.state = np.array([x, v], dtype=np.float32)
        self.t += 1
        outside = abs(x) > self.limit
        reward = 1.0 - abs(x) - 0.2 * abs(v) - 3.0 * outside
        return self.state.copy(), reward, outside, self.t >= self.horizon


class ReplayBuffer:
    def __init__(self, capacity, state_dim, rng):
        self.rng, self.capacity, self.size, self.pos = rng, capacity, 0, 0
        self.data = {
            "state": np.zeros((capacity, state_dim), np.float32), "action": np.zeros((capacity, 1), np.int64),
            "reward": np.zeros(capacity, np.float32), "next": np.zeros((capacity, state_dim), np.float32),
            "done": np.zeros(capacity, np.float32),
        }

    def add(self, **item):
        for key, value in item.items():
            self.data[key][self.pos] = value
        self.pos = (self.pos + 1) % self.capacity
        self.size = min(self.size + 1, self.capacity)

    def sample(self, n):
        idx = self.rng.integers(0, self.size, size=n)
        return {key: torch.from_numpy(column[idx]) for key, column in self.data.items()}


def huber(prediction, target, delta):
    error = (prediction - target).abs()
    quadratic = error.clamp(max=delta)
    return (0.5 * quadratic**2 + delta * (error - quadratic)).mean()


class Agent:
    def __init__(self, cfg, state_dim, actions, loss_fn):
        self.cfg, self.loss_fn, self.actions = cfg, loss_fn, actions
        self.online = nn.Sequential(nn.Linear(state_dim, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, actions))
        self.target = copy.deepcopy(self.online).requires_grad_(False)
        self.optimizer = torch.optim.Adam(self.online.parameters(), lr=cfg.lr)

    @torch.no_grad()
    def act(self, state):
        return int(self.online(torch.from_numpy(state)).argmax())

    @torch.no_grad()
    def bootstrap(self, batch):
        choice = self.online(batch["next"]).argmax(1, keepdim=True)
        value = self.target(batch["next"]).gather(1, choice).squeeze(1)
        return batch["reward"] + self.cfg.gamma * (1 - batch["done"]) * value

    def learn(self, batch):
        q = self.online(batch["state"]).gather(1, batch["action"])
        loss = self.loss_fn(q, self.bootstrap(batch))
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.online.parameters(), 10.0)
        self.optimizer.step()
        with torch.no_grad():
            for slow, fast in zip(self.target.parameters(), self.online.parameters()):
                slow.lerp_(fast, self.cfg.tau)
        return loss.item()


def evaluate(agent, env, episodes=10):
    agent.online.eval()
    total = 0.0
    for _ in range(episodes):
        state, end = env.reset(), False
        while not end:
            state, reward, done, timeout = env.step(agent.act(state))
            total, end = total + reward, done or timeout
    agent.online.train()
    return total / episodes


def main(cfg=Config()):
    torch.set_num_threads(1)
    torch.manual_seed(cfg.seed)
    rng, test_rng = np.random.default_rng(cfg.seed), np.random.default_rng(cfg.seed + 1)
    env, test_env = Docking(rng), Docking(test_rng)
    agent = Agent(cfg, 2, env.actions, partial(huber, delta=1.0))
    buffer = ReplayBuffer(cfg.capacity, 2, rng)
    state, losses = env.reset(), []
    for step in range(1, cfg.env_steps + 1):
        eps = max(cfg.eps_end, cfg.eps_start - step / (0.6 * cfg.env_steps))
        action = int(rng.integers(env.actions)) if rng.random() < eps else agent.act(state)
        following, reward, done, timeout = env.step(action)
        buffer.add(state=state, action=action, reward=reward, next=following, done=done)
        state = env.reset() if done or timeout else following
        if step > cfg.warmup:
            losses.append(agent.learn(buffer.sample(cfg.batch_size)))
        if step % cfg.eval_every == 0:
            recent = float(np.mean(losses[-500:]))
            print(f"step {step:5d}  eps {eps:.2f}  loss {recent:.4f}  return {evaluate(agent, test_env):.2f}")


if __name__ == "__main__":
    main()
