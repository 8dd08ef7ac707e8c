# kind: inside frameworks
# expect: nothing
# like: foreign-gradients
# why: The actor's loss goes through the critic and fills the critic's gradients; they are never stepped with, because
#      the critic's zero_grad comes before its own backward. Target networks are deep copies moved by Polyak averaging.
import copy

import torch
import torch.nn.functional as F
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn

torch.set_num_threads(1)


class PointMass:
    """A batch of carts on a line that have to come to rest at zero; the action is a bounded force."""

    def __init__(self, n, generator, horizon=25):
        self.n, self.g, self.horizon = n, generator, horizon

    def reset(self):
        self.t = 0
        self.s = 2 * torch.rand(self.n, 2, generator=self.g) - 1
        return self.s

    def step(self, a):
        pos, vel = self.s[:, 0], self.s[:, 1]
        vel = 0.9 * vel + 0.3 * a[:, 0]
        pos = (pos + 0.3 * vel).clamp(-2, 2)
        self.s = torch.stack([pos, vel], dim=1)
        self.t += 1
        reward = -(pos ** 2 + 0.1 * vel ** 2 + 0.05 * a[:, 0] ** 2)
        return self.s, reward, self.t >= self.horizon


class Replay:
    def __init__(self, size, generator):
        self.size, self.g, self.ptr, self.full = size, generator, 0, False
        self.s, self.a = torch.zeros(size, 2), torch.zeros(size, 1)
        self.r, self.s2 = torch.zeros(size), torch.zeros(size, 2)

    def add(self, s, a, r, s2):
        idx = (self.ptr + torch.arange(len(s))) % self.size
        self.s[idx], self.a[idx], self.r[idx], self.s2[idx] = s, a, r, s2
        self.full |= self.ptr + len(s) >= self.size
        self.ptr = (self.ptr + len(s)) % self.size

    def sample(self, n):
        idx = torch.randint(self.size if self.full else self.ptr, (n,), generator=self.g)
        return self.s[idx], self.a[idx], self.r[idx], self.s2[idx]


def mlp(i, o, last=None):
    layers = [nn.Linear(i, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, o)]
    return nn.Sequential(*layers, *([last] if last else []))


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.q = mlp(3, 1)

    def forward(self, s, a):
        return self.q(torch.cat([s, a], dim=1)).squeeze(1)


@torch.no_grad()
def evaluate(actor, seed=1234):
    actor.eval()
    env = PointMass(64, torch.Generator().manual_seed(seed))
    s, done, total = env.reset(), False, 0.0
    while not done:
        s, r, done = env.step(actor(s))
        total += r.mean().item()
    actor.train()
    return total


@torch.no_grad()
def polyak(target, source, tau):
    for t, p in zip(target.parameters(), source.parameters()):
        t.lerp_(p, tau)


def main(gamma=0.9, tau=0.02, updates=900, warmup=20):
    set_seed(6)
    g = torch.Generator().manual_seed(60)
    accelerator = Accelerator(cpu=True)
    actor, critic = mlp(2, 1, nn.Tanh()), Critic()
    actor_opt = torch.optim.Adam(actor.parameters(), lr=5e-4)
    critic_opt = torch.optim.Adam(critic.parameters(), lr=1e-3)
    actor, critic, actor_opt, critic_opt = accelerator.prepare(actor, critic, actor_opt, critic_opt)
    actor_target = copy.deepcopy(actor).requires_grad_(False)
    critic_target = copy.deepcopy(critic).requires_grad_(False)
    env, replay = PointMass(16, g), Replay(8000, g)
    s = env.reset()
    for it in range(warmup + updates):
        with torch.no_grad():
            a = actor(s) + 0.3 * torch.randn(16, 1, generator=g)
            if it < warmup:
                a = 2 * torch.rand(16, 1, generator=g) - 1
            a = a.clamp(-1, 1)
        s2, r, done = env.step(a)
        replay.add(s, a, r, s2)
        s = env.reset() if done else s2
        if it < warmup:
            continue
        bs, ba, br, bs2 = replay.sample(128)
        with torch.no_grad():
            goal = br + gamma * critic_target(bs2, actor_target(bs2))
        critic_loss = F.mse_loss(critic(bs, ba), goal)
        critic_opt.zero_grad()
        accelerator.backward(critic_loss)
        critic_opt.step()

        actor_loss = -critic(bs, actor(bs)).mean()
        actor_opt.zero_grad()
        accelerator.backward(actor_loss)
        actor_opt.step()
        polyak(actor_target, actor, tau)
        polyak(critic_target, critic, tau)
        if (it - warmup + 1) % 150 == 0:
            accelerator.print(f"update {it - warmup + 1}: critic {critic_loss.item():.4f} return {evaluate(actor):.2f}")


if __name__ == "__main__":
    main()
