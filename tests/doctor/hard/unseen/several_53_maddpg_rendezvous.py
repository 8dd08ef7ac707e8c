# kind: several losses and optimizers
# expect: batch-mixed
# why: The joint input of the critics is stacked with the agents first and then reshaped to batch first, so a
#      row holds the same agent of several samples and not all agents of one sample.
import copy

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(1)

AGENTS, OBS, ACT = 3, 4, 2


class Rendezvous:
    """Three agents each on a line segment of the plane try to meet near their own beacons."""

    def __init__(self, worlds, seed):
        self.rng = np.random.default_rng(seed)
        self.worlds = worlds
        self.reset()

    def reset(self):
        self.pos = self.rng.uniform(-1, 1, (self.worlds, AGENTS, 2))
        self.beacon = self.rng.uniform(-1, 1, (self.worlds, AGENTS, 2))
        return self.observe()

    def observe(self):
        return np.concatenate([self.pos, self.beacon], -1).astype(np.float32)

    def step(self, action):
        self.pos = np.clip(self.pos + 0.3 * action, -1.5, 1.5)
        to_beacon = ((self.pos - self.beacon) ** 2).sum(-1)
        together = ((self.pos - self.pos.mean(1, keepdims=True)) ** 2).sum(-1).mean(1, keepdims=True)
        return self.observe(), -(to_beacon + 0.2 * together).astype(np.float32)


class Actor(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(OBS, 48), nn.ReLU(), nn.Linear(48, ACT), nn.Tanh())

    def forward(self, obs):
        return self.net(obs)


class CentralCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(AGENTS * (OBS + ACT), 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, obs, acts):
        """obs: (B, AGENTS, OBS); acts: one (B, ACT) per agent."""
        pairs = [torch.cat([obs[:, i], a], -1) for i, a in enumerate(acts)]
        joint = torch.stack(pairs).reshape(len(obs), -1)
        return self.net(joint).squeeze(-1)


class Agent:
    def __init__(self, index, lr_actor, lr_critic):
        self.index = index
        self.actor, self.critic = Actor(), CentralCritic()
        self.actor_t = copy.deepcopy(self.actor).requires_grad_(False)
        self.critic_t = copy.deepcopy(self.critic).requires_grad_(False)
        self.opt_actor = torch.optim.Adam(self.actor.parameters(), lr=lr_actor)
        self.opt_critic = torch.optim.Adam(self.critic.parameters(), lr=lr_critic)

    @torch.no_grad()
    def follow(self, tau):
        for live, slow in ((self.actor, self.actor_t), (self.critic, self.critic_t)):
            for p, q in zip(live.parameters(), slow.parameters()):
                q.lerp_(p, tau)


@torch.no_grad()
def joint_action(agents, obs, noise=0.0):
    obs = torch.from_numpy(obs)
    act = torch.stack([ag.actor(obs[:, i]) for i, ag in enumerate(agents)], 1)
    return (act + noise * torch.randn_like(act)).clamp(-1, 1).numpy()


def update(agents, batch, gamma=0.8):
    obs, act, rew, nxt = batch
    stats = []
    with torch.no_grad():
        next_acts = [ag.actor_t(nxt[:, i]) for i, ag in enumerate(agents)]
    acts = list(act.unbind(1))
    for ag in agents:
        with torch.no_grad():
            target = rew[:, ag.index] + gamma * ag.critic_t(nxt, next_acts)
        loss_c = F.mse_loss(ag.critic(obs, acts), target)
        ag.opt_critic.zero_grad()
        loss_c.backward()
        ag.opt_critic.step()

        own = [ag.actor(obs[:, i]) if i == ag.index else a for i, a in enumerate(acts)]
        loss_a = -ag.critic(obs, own).mean()
        ag.opt_actor.zero_grad()
        loss_a.backward()
        ag.opt_actor.step()
        stats.append(loss_c.item())
    for ag in agents:
        ag.follow(0.05)
    return np.mean(stats)


def evaluate(agents):
    env = Rendezvous(100, seed=777)
    obs, total = env.observe(), 0.0
    for _ in range(12):
        obs, r = env.step(joint_action(agents, obs))
        total += r.mean()
    return total / 12


def main():
    torch.manual_seed(52)
    np.random.seed(52)
    agents = [Agent(i, 1e-3, 2e-3) for i in range(AGENTS)]
    env, store = Rendezvous(16, seed=53), []
    obs = env.observe()
    for t in range(340):
        act = joint_action(agents, obs, noise=0.3)
        nxt, rew = env.step(act)
        store.extend(zip(obs, act, rew, nxt))
        obs = env.reset() if t % 12 == 11 else nxt
        if t >= 20:
            pick = np.random.choice(len(store), 96, replace=False)
            critic = update(agents, [torch.from_numpy(np.stack(c)) for c in zip(*(store[i] for i in pick))])
        if t % 60 == 59:
            print(f"step {t + 1}: critic {critic:.3f} evaluation {evaluate(agents):.3f}")


main()
