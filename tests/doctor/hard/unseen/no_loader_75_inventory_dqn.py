# kind: without a DataLoader
# expect: nothing
# why: the target network is in no optimizer, is written in place and looks like a twin of the online network; exploration runs under no_grad on the trained network; targets come from it without gradient. That is plain double DQN with a hard copy every 50 steps (deepcopy, own storage).
"""Inventory control with a double DQN on a simulated warehouse."""
import copy
from collections import deque
import numpy as np
import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(6)
rng = np.random.default_rng(6)


class Warehouse:
    """Order 0..4 units a day; holding cost, stock-out cost, weekly season."""
    CAP, ORDERS = 20, 5

    def __init__(self, lanes):
        self.stock = rng.integers(0, self.CAP, lanes)
        self.day = rng.integers(0, 7, lanes)

    def observe(self):
        angle = 2 * np.pi * self.day / 7
        return np.stack([self.stock / self.CAP, np.sin(angle), np.cos(angle)], 1).astype(np.float32)

    def step(self, order):
        stock = np.minimum(self.stock + order, self.CAP)
        demand = rng.poisson(1.5 + np.where(self.day >= 5, 2.0, 0.0))
        sold = np.minimum(stock, demand)
        reward = 1.0 * sold - 0.08 * (stock - sold) - 0.6 * (demand - sold) - 0.3 * order
        self.stock, self.day = stock - sold, (self.day + 1) % 7
        return reward.astype(np.float32) / 4


def q_network():
    return nn.Sequential(nn.Linear(3, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, Warehouse.ORDERS))


@torch.no_grad()
def act(q, obs, eps):
    greedy = q(torch.from_numpy(obs)).argmax(1).numpy()
    explore = rng.random(len(obs)) < eps
    return np.where(explore, rng.integers(0, Warehouse.ORDERS, len(obs)), greedy)


def sample(memory, size):
    pick = rng.integers(0, len(memory), size)
    obs, action, reward, nxt = zip(*(memory[i] for i in pick))
    return (torch.from_numpy(np.stack(obs)), torch.as_tensor(np.array(action)),
            torch.as_tensor(np.array(reward)), torch.from_numpy(np.stack(nxt)))


def td_loss(online, target, batch, gamma=0.9):
    obs, action, reward, nxt = batch
    q = online(obs).gather(1, action[:, None]).squeeze(1)
    with torch.no_grad():
        choice = online(nxt).argmax(1, keepdim=True)
        goal = reward + gamma * target(nxt).gather(1, choice).squeeze(1)
    return nn.functional.smooth_l1_loss(q, goal)


def mean_reward(q, days=60):
    world, total = Warehouse(32), 0.0
    for _ in range(days):
        total += world.step(act(q, world.observe(), 0.0)).mean()
    return total / days


def main():
    online = q_network()
    target = copy.deepcopy(online).requires_grad_(False)
    opt = torch.optim.Adam(online.parameters(), lr=1e-3)
    memory = deque(maxlen=5000)
    world = Warehouse(8)
    for step in range(600):
        obs = world.observe()
        action = act(online, obs, eps=max(0.05, 1.0 - step / 300))
        reward = world.step(action)
        memory.extend(zip(obs, action, reward, world.observe()))
        if len(memory) < 400:
            continue
        loss = td_loss(online, target, sample(memory, 64))
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(online.parameters(), 10.0)
        opt.step()
        if step % 50 == 0:
            target.load_state_dict(online.state_dict())
        if step % 150 == 149:
            print(f"step {step + 1} loss {loss.item():.4f} greedy reward per day {mean_reward(online):.4f}")


main()
