# kind: in a second phase
# expect: foreign-gradients
# why: fit_critic() clears the critic's gradients at its end, which is enough during the warm-up. In the second phase
#   improve_actor() runs before it and its backward leaves -Q gradients in the critic, which the critic's step adds.
import copy

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(21)

GAMMA, TAU, BATCH = 0.95, 0.02, 128


def mlp(i, o, *last):
    return nn.Sequential(nn.Linear(i, 64), nn.SiLU(), nn.Linear(64, 64), nn.SiLU(), nn.Linear(64, o), *last)


class PointMass:
    """Push a point to the origin; state is position and velocity in the plane."""

    def __init__(self, count, seed):
        g = torch.Generator().manual_seed(seed)
        self.state = torch.cat([torch.rand(count, 2, generator=g) * 2 - 1, torch.zeros(count, 2)], 1)

    def step(self, action):
        pos, vel = self.state[:, :2], self.state[:, 2:]
        vel = 0.9 * vel + 0.2 * action
        pos = (pos + 0.2 * vel).clamp(-1.5, 1.5)
        self.state = torch.cat([pos, vel], 1)
        reward = -(pos.pow(2).sum(1) + 0.05 * action.pow(2).sum(1))
        return self.state, reward


class Replay:
    def __init__(self):
        self.rows = []

    def add(self, s, a, r, s2):
        self.rows.append(torch.cat([s, a, r[:, None], s2], 1))

    def sample(self):
        pool = torch.cat(self.rows)
        rows = pool[torch.randint(len(pool), (BATCH,))]
        return rows[:, :4], rows[:, 4:6], rows[:, 6], rows[:, 7:]


def collect(policy, replay, seed, steps=30, count=32):
    env = PointMass(count, seed)
    for _ in range(steps):
        s = env.state
        with torch.no_grad():
            a = (policy(s) + 0.3 * torch.randn(count, 2)).clamp(-1, 1)
        s2, r = env.step(a)
        replay.add(s, a, r, s2)


def evaluate(policy):
    policy.eval()
    env, total = PointMass(64, seed=10_000), 0.0
    with torch.no_grad():
        for _ in range(30):
            _, r = env.step(policy(env.state))
            total += r.mean().item()
    policy.train()
    return total


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = mlp(6, 1)

    def forward(self, s, a):
        return self.net(torch.cat([s, a], 1)).squeeze(1)


actor, critic = mlp(4, 2, nn.Tanh()), Critic()
actor_target, critic_target = copy.deepcopy(actor), copy.deepcopy(critic)
actor_target.requires_grad_(False)
critic_target.requires_grad_(False)
actor_opt = torch.optim.Adam(actor.parameters(), lr=5e-4)
critic_opt = torch.optim.Adam(critic.parameters(), lr=1e-3)


def fit_critic(s, a, r, s2):
    with torch.no_grad():
        goal = r + GAMMA * critic_target(s2, actor_target(s2))
    loss = nn.functional.mse_loss(critic(s, a), goal)
    loss.backward()
    critic_opt.step()
    critic_opt.zero_grad()
    return loss.item()


def improve_actor(s):
    value = critic(s, actor(s)).mean()
    actor_opt.zero_grad()
    (-value).backward()
    actor_opt.step()
    return value.item()


@torch.no_grad()
def follow():
    for live, slow in ((actor, actor_target), (critic, critic_target)):
        for p, q in zip(live.parameters(), slow.parameters()):
            q.lerp_(p, TAU)


replay = Replay()
for k in range(8):
    collect(actor, replay, seed=k)

for step in range(250):
    td = fit_critic(*replay.sample())
    follow()
    if step % 50 == 0:
        print(f"warm-up {step:3d}  td {td:.4f}")
print(f"before: return {evaluate(actor):.3f}")

for step in range(400):
    if step % 40 == 0:
        collect(actor, replay, seed=100 + step)
    s, a, r, s2 = replay.sample()
    value = improve_actor(s)
    td = fit_critic(s, a, r, s2)
    follow()
    if step % 50 == 0:
        print(f"policy {step:3d}  td {td:.4f}  value {value:.3f}  return {evaluate(actor):.3f}")
print(f"after: return {evaluate(actor):.3f}")
