# kind: several
# expect: nothing
# why: Might be accused of diverging-loss, teacher-shares-weights or evaluated-with-grad: the bootstrapped targets grow all through training so the TD loss need not fall, acting runs under no_grad, and the target net is a separate copy refreshed by load_state_dict.
"""Double DQN on a small vectorised cart: push left, push right or coast, stay near the origin."""
import argparse
import copy

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


class Carts:
    """n carts on a line; an episode ends when a cart leaves the track and is cut off after `limit` steps."""

    def __init__(self, n, seed, limit=60):
        self.n, self.limit = n, limit
        self.rng = np.random.default_rng(seed)
        self.state = np.zeros((n, 2), dtype=np.float32)
        self.age = np.zeros(n, dtype=np.int64)
        self.reset(np.ones(n, dtype=bool))

    def reset(self, which):
        self.state[which] = self.rng.uniform(-1.5, 1.5, size=(int(which.sum()), 2)).astype(np.float32)
        self.age[which] = 0

    def observe(self):
        return torch.from_numpy(self.state / np.array([1.2, 1.0], dtype=np.float32))

    def step(self, actions):
        force = (actions.numpy() - 1) * 1.0 + self.rng.normal(0, 0.1, self.n)
        self.state[:, 1] = 0.98 * self.state[:, 1] + 0.1 * force
        self.state[:, 0] += 0.1 * self.state[:, 1]
        self.age += 1
        off = np.abs(self.state[:, 0]) > 3.0
        reward = np.exp(-2.0 * self.state[:, 0] ** 2 - 0.5 * self.state[:, 1] ** 2)
        reward[off] = -1.0
        after = self.observe().clone()  # what the action led to, before any reset
        cut = self.age >= self.limit
        self.reset(off | cut)
        return torch.from_numpy(reward.astype(np.float32)), after, torch.from_numpy(off), torch.from_numpy(off | cut)


class Replay:
    def __init__(self, capacity):
        self.obs, self.next_obs = torch.zeros(capacity, 2), torch.zeros(capacity, 2)
        self.action = torch.zeros(capacity, dtype=torch.long)
        self.reward, self.terminal = torch.zeros(capacity), torch.zeros(capacity)
        self.capacity, self.at, self.filled = capacity, 0, 0

    def add(self, obs, action, reward, next_obs, terminal):
        where = (self.at + torch.arange(len(obs))) % self.capacity
        self.obs[where], self.next_obs[where] = obs, next_obs
        self.action[where], self.reward[where], self.terminal[where] = action, reward, terminal.float()
        self.at = (self.at + len(obs)) % self.capacity
        self.filled = min(self.filled + len(obs), self.capacity)

    def sample(self, n):
        pick = torch.randint(self.filled, (n,))
        return self.obs[pick], self.action[pick], self.reward[pick], self.next_obs[pick], self.terminal[pick]


class QNet(nn.Module):
    def __init__(self, hidden=64):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(2, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU())
        self.value, self.advantage = nn.Linear(hidden, 1), nn.Linear(hidden, 3)

    def forward(self, obs):
        h = self.body(obs)
        adv = self.advantage(h)
        return self.value(h) + adv - adv.mean(dim=-1, keepdim=True)


@torch.no_grad()
def average_return(net, seed, episodes=64):
    was_training = net.training
    net.eval()
    envs, total, alive = Carts(episodes, seed), torch.zeros(episodes), torch.ones(episodes)
    for _ in range(envs.limit):
        reward, _, _, done = envs.step(net(envs.observe()).argmax(dim=-1))
        total += alive * reward
        alive = alive * (~done).float()
    net.train(was_training)
    return total.mean().item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=1200)
    parser.add_argument("--gamma", type=float, default=0.97)
    parser.add_argument("--sync-every", type=int, default=100)
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(11)

    online = QNet()
    target = copy.deepcopy(online).eval().requires_grad_(False)
    optimizer = torch.optim.Adam(online.parameters(), lr=1e-3)
    envs, memory = Carts(16, seed=1), Replay(20_000)
    best_return, best_weights = float("-inf"), None

    for step in range(args.steps):
        epsilon = max(0.05, 1.0 - step / 500)
        obs = envs.observe().clone()
        with torch.no_grad():
            greedy = online(obs).argmax(dim=-1)
        action = torch.where(torch.rand(envs.n) < epsilon, torch.randint(3, (envs.n,)), greedy)
        reward, after, terminal, _ = envs.step(action)
        memory.add(obs, action, reward, after, terminal)
        if memory.filled < 1000:
            continue

        obs_b, act_b, rew_b, next_b, term_b = memory.sample(128)
        with torch.no_grad():
            choice = online(next_b).argmax(dim=-1, keepdim=True)
            bootstrap = target(next_b).gather(1, choice).squeeze(1)
            goal = rew_b + args.gamma * (1 - term_b) * bootstrap
        q = online(obs_b).gather(1, act_b.unsqueeze(1)).squeeze(1)
        loss = F.smooth_l1_loss(q, goal)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(online.parameters(), 10.0)
        optimizer.step()

        if step % args.sync_every == 0:
            target.load_state_dict(online.state_dict())
        if step % 200 == 199:
            ret = average_return(online, seed=500)
            print(f"step {step + 1:5d}  td {loss.item():.4f}  q {q.mean().item():6.2f}  return {ret:6.2f}")
            if ret > best_return:
                best_return, best_weights = ret, copy.deepcopy(online.state_dict())

    online.load_state_dict(best_weights)
    print(f"final return on fresh episodes {average_return(online, seed=900, episodes=256):.2f}")


if __name__ == "__main__":
    main()
