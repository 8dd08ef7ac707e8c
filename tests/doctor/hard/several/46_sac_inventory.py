# kind: several losses and optimizers
# expect: teacher-shares-weights
# why: The target critic is a shallow copy (copy.copy), whose layers are those of the live critic; the Polyak
#      update does nothing and the targets move with every step.
import copy
from collections import deque
from dataclasses import dataclass, field

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(1)

ORDERS = np.array([0, 2, 4, 8])


class Warehouse:
    """Many shops, each ordering goods against a seasonal demand."""

    def __init__(self, shops, seed):
        self.rng = np.random.default_rng(seed)
        self.stock = self.rng.integers(0, 12, shops).astype(float)
        self.season = self.rng.uniform(0, 2 * np.pi, shops)

    def observe(self):
        return np.stack([self.stock / 6 - 1, np.sin(self.season), np.cos(self.season)], 1).astype(np.float32)

    def step(self, action):
        ordered = ORDERS[action]
        demand = self.rng.poisson(3 + 2 * np.sin(self.season))
        available = np.minimum(self.stock + ordered, 14)
        sold = np.minimum(available, demand)
        self.stock = available - sold
        self.season = (self.season + 0.3) % (2 * np.pi)
        return ((sold - 0.35 * ordered - 0.1 * self.stock - 0.3 * (demand - sold)) / 3).astype(np.float32)


def net():
    return nn.Sequential(nn.Linear(3, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, len(ORDERS)))


@dataclass
class SAC:
    gamma: float = 0.9
    tau: float = 0.01
    lr: float = 1e-3
    target_entropy: float = 0.5
    actor: nn.Module = field(default_factory=net)
    q: nn.Module = field(default_factory=lambda: nn.ModuleList([net(), net()]))

    def __post_init__(self):
        self.q_target = copy.copy(self.q)
        self.log_alpha = torch.tensor(-2.0, requires_grad=True)
        self.opt_actor = torch.optim.Adam(self.actor.parameters(), lr=self.lr)
        self.opt_q = torch.optim.Adam(self.q.parameters(), lr=self.lr)
        self.opt_alpha = torch.optim.Adam([self.log_alpha], lr=self.lr)

    @torch.no_grad()
    def act(self, obs, greedy=False):
        logits = self.actor(torch.from_numpy(obs))
        if greedy:
            return logits.argmax(1).numpy()
        return torch.distributions.Categorical(logits=logits).sample().numpy()

    def learn(self, s, a, r, s2):
        alpha = self.log_alpha.exp().detach()
        with torch.no_grad():
            logp2 = self.actor(s2).log_softmax(1)
            soft = torch.min(*[q(s2) for q in self.q_target]) - alpha * logp2
            backup = r + self.gamma * (logp2.exp() * soft).sum(1)
        loss_q = sum(F.mse_loss(q(s).gather(1, a[:, None]).squeeze(1), backup) for q in self.q)
        self.opt_q.zero_grad()
        loss_q.backward()
        self.opt_q.step()

        logp = self.actor(s).log_softmax(1)
        with torch.no_grad():
            value = torch.min(*[q(s) for q in self.q])
        loss_pi = (logp.exp() * (alpha * logp - value)).sum(1).mean()
        self.opt_actor.zero_grad()
        loss_pi.backward()
        self.opt_actor.step()

        entropy = -(logp.exp() * logp).sum(1).mean().detach()
        loss_alpha = self.log_alpha * (entropy - self.target_entropy)
        self.opt_alpha.zero_grad()
        loss_alpha.backward()
        self.opt_alpha.step()

        with torch.no_grad():
            for slow, fast in zip(self.q_target.parameters(), self.q.parameters()):
                slow.lerp_(fast, self.tau)
        return loss_q.item(), loss_pi.item(), entropy.item()


def evaluate(agent):
    env = Warehouse(100, seed=4321)
    return np.mean([env.step(agent.act(env.observe(), greedy=True)).mean() for _ in range(40)])


def main():
    np.random.seed(21)
    torch.manual_seed(21)
    agent, env, memory = SAC(), Warehouse(16, seed=22), deque(maxlen=20000)
    for t in range(540):
        s = env.observe()
        a = agent.act(s)
        r = env.step(a)
        memory.extend(zip(s, a, r, env.observe()))
        if t < 40:
            continue
        pick = np.random.randint(len(memory), size=128)
        batch = [torch.from_numpy(np.stack(c)) for c in zip(*(memory[i] for i in pick))]
        stats = agent.learn(*batch)
        if t % 100 == 99:
            print(f"{t + 1}: q {stats[0]:.3f} pi {stats[1]:.3f} entropy {stats[2]:.2f} evaluation {evaluate(agent):.3f}")
    print(f"end: evaluation {evaluate(agent):.3f}")


main()
