# kind: several losses and optimizers
# expect: nothing
# like: foreign-gradients
# why: TD3; the actor's loss runs through the critic and leaves gradients in it, but the critic's
#      gradients are cleared before its own backward, so no critic step ever uses them.
import copy
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(1)


class PointMass:
    """A batch of points on a line that have to be brought to the origin."""

    def __init__(self, n, seed):
        self.rng = np.random.default_rng(seed)
        self.n = n
        self.reset()

    def reset(self):
        self.pos = self.rng.uniform(-1.5, 1.5, self.n)
        self.vel = self.rng.uniform(-0.5, 0.5, self.n)
        return self.obs()

    def obs(self):
        return np.stack([self.pos, self.vel], 1).astype(np.float32)

    def step(self, a):
        a = a[:, 0]
        self.vel = np.clip(0.95 * self.vel + 0.25 * a, -2, 2)
        self.pos = np.clip(self.pos + 0.25 * self.vel, -2, 2)
        reward = -(self.pos ** 2 + 0.1 * self.vel ** 2 + 0.01 * a ** 2)
        return self.obs(), reward.astype(np.float32)[:, None]


class Actor(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, s):
        return torch.tanh(self.net(s))


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.q1 = nn.Sequential(nn.Linear(3, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))
        self.q2 = nn.Sequential(nn.Linear(3, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, s, a):
        sa = torch.cat([s, a], 1)
        return self.q1(sa), self.q2(sa)


class TD3:
    def __init__(self, gamma=0.9, tau=0.02, delay=2):
        self.actor, self.critic = Actor(), Critic()
        self.actor_t, self.critic_t = copy.deepcopy(self.actor), copy.deepcopy(self.critic)
        self.actor_t.requires_grad_(False)
        self.critic_t.requires_grad_(False)
        self.opt_a = torch.optim.Adam(self.actor.parameters(), lr=1e-3)
        self.opt_c = torch.optim.Adam(self.critic.parameters(), lr=2e-3)
        self.gamma, self.tau, self.delay, self.it = gamma, tau, delay, 0

    def train_on(self, s, a, r, s2):
        self.it += 1
        with torch.no_grad():
            noise = (0.2 * torch.randn_like(a)).clamp(-0.5, 0.5)
            a2 = (self.actor_t(s2) + noise).clamp(-1, 1)
            target = r + self.gamma * torch.min(*self.critic_t(s2, a2))
        q1, q2 = self.critic(s, a)
        loss_c = F.mse_loss(q1, target) + F.mse_loss(q2, target)
        self.opt_c.zero_grad()
        loss_c.backward()
        self.opt_c.step()
        if self.it % self.delay == 0:
            loss_a = -self.critic(s, self.actor(s))[0].mean()
            self.opt_a.zero_grad()
            loss_a.backward()
            self.opt_a.step()
            with torch.no_grad():
                for net, tgt in ((self.actor, self.actor_t), (self.critic, self.critic_t)):
                    for p, pt in zip(net.parameters(), tgt.parameters()):
                        pt.lerp_(p, self.tau)
        return loss_c.item()


@torch.no_grad()
def evaluate(agent, seed):
    env = PointMass(64, seed)
    s, total = env.obs(), 0.0
    for _ in range(30):
        s, r = env.step(agent.actor(torch.from_numpy(s)).numpy())
        total += r.mean()
    return total


if __name__ == "__main__":
    random.seed(3)
    np.random.seed(3)
    torch.manual_seed(3)
    env, agent, memory = PointMass(16, seed=11), TD3(), []
    s = env.obs()
    for t in range(900):
        if t < 50:
            a = np.random.uniform(-1, 1, (16, 1)).astype(np.float32)
        else:
            with torch.no_grad():
                a = agent.actor(torch.from_numpy(s)).numpy()
            a = np.clip(a + 0.2 * np.random.randn(16, 1), -1, 1).astype(np.float32)
        s2, r = env.step(a)
        memory.extend(zip(s, a, r, s2))
        s = env.reset() if t % 30 == 29 else s2
        if t >= 50:
            batch = random.sample(memory, 128)
            loss = agent.train_on(*(torch.from_numpy(np.stack(c)) for c in zip(*batch)))
        if t % 150 == 149:
            print(f"step {t + 1} critic loss {loss:.4f} return {evaluate(agent, seed=999):.2f}")
