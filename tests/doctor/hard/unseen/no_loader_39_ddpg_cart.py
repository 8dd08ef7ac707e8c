# kind: without a DataLoader
# expect: nothing
# like: foreign-gradients
# why: The actor's loss runs through the critic and leaves gradients there, but the critic's optimizer clears them
#      before its own backward, so no step ever uses them. Targets are frozen copies moved by Polyak averaging.
import copy

import numpy as np
import torch
from torch import nn
import torch.nn.functional as F

torch.set_num_threads(1)
torch.manual_seed(5)
np.random.seed(5)

GAMMA, TAU, BATCH, UPDATES, CARTS = 0.9, 0.02, 64, 400, 8


class Carts:
    """A row of point masses that should come to rest at the origin."""

    def __init__(self, n, rng):
        self.rng, self.n = rng, n
        self.reset(np.ones(n, bool))

    def reset(self, which):
        if not hasattr(self, "s"):
            self.s = np.zeros((self.n, 2), np.float32)
            self.age = np.zeros(self.n, int)
        self.s[which] = self.rng.uniform(-1, 1, (which.sum(), 2))
        self.age[which] = 0

    def step(self, a):
        pos, vel = self.s[:, 0], self.s[:, 1]
        vel = 0.9 * vel + 0.3 * a
        pos = np.clip(pos + 0.3 * vel, -2, 2)
        self.s = np.stack([pos, vel], 1).astype(np.float32)
        reward = -(np.abs(pos) + 0.1 * a ** 2)
        self.age += 1
        after = self.s.copy()
        self.reset(self.age >= 40)
        return reward.astype(np.float32), after


class Memory:
    def __init__(self, room):
        self.s = np.zeros((room, 2), np.float32)
        self.a = np.zeros((room, 1), np.float32)
        self.r = np.zeros((room, 1), np.float32)
        self.z = np.zeros((room, 2), np.float32)
        self.room, self.at, self.size = room, 0, 0

    def put(self, s, a, r, z):
        where = (self.at + np.arange(len(s))) % self.room
        self.s[where], self.a[where], self.r[where], self.z[where] = s, a[:, None], r[:, None], z
        self.at = (self.at + len(s)) % self.room
        self.size = min(self.room, self.size + len(s))

    def sample(self, n, rng):
        i = rng.integers(0, self.size, n)
        return [torch.from_numpy(v[i]) for v in (self.s, self.a, self.r, self.z)]


actor = nn.Sequential(nn.Linear(2, 48), nn.ReLU(), nn.Linear(48, 1), nn.Tanh())
critic = nn.Sequential(nn.Linear(3, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))
slow_actor, slow_critic = copy.deepcopy(actor), copy.deepcopy(critic)
for net in (slow_actor, slow_critic):
    net.requires_grad_(False)
    net.eval()
opt_a = torch.optim.Adam(actor.parameters(), lr=1e-3)
opt_c = torch.optim.Adam(critic.parameters(), lr=2e-3)


def learn(batch):
    s, a, r, z = batch
    with torch.no_grad():
        goal = r + GAMMA * slow_critic(torch.cat([z, slow_actor(z)], 1))
    opt_c.zero_grad()
    loss_c = F.mse_loss(critic(torch.cat([s, a], 1)), goal)
    loss_c.backward()
    opt_c.step()

    opt_a.zero_grad()
    loss_a = -critic(torch.cat([s, actor(s)], 1)).mean()
    loss_a.backward()
    opt_a.step()

    with torch.no_grad():
        for slow, fast in ((slow_actor, actor), (slow_critic, critic)):
            for p, q in zip(slow.parameters(), fast.parameters()):
                p.lerp_(q, TAU)
    return loss_c.item(), loss_a.item()


@torch.no_grad()
def trial(seed=99, n=64, steps=40):
    actor.eval()
    world, total = Carts(n, np.random.default_rng(seed)), 0.0
    for _ in range(steps):
        r, _ = world.step(actor(torch.from_numpy(world.s)).numpy()[:, 0])
        total += r.mean()
    actor.train()
    return total


rng = np.random.default_rng(5)
world, memory = Carts(CARTS, rng), Memory(6000)
for k in range(UPDATES + 60):
    s = world.s.copy()
    with torch.no_grad():
        a = actor(torch.from_numpy(s)).numpy()[:, 0]
    a = rng.uniform(-1, 1, CARTS) if k < 60 else np.clip(a + rng.normal(0, 0.3, CARTS), -1, 1)
    r, z = world.step(a)
    memory.put(s, a, r, z)
    if k >= 60:
        lc, la = learn(memory.sample(BATCH, rng))
        if (k - 60) % 50 == 49:
            print(f"update {k - 59:3d}  critic {lc:.4f}  actor {la:.4f}  return {trial():.3f}")
