# kind: several losses and optimizers
# expect: nothing
# like: detached-loss
# why: part of the sum (the advantage) is detached on purpose, as actor-critic wants it; policy, value and entropy
#      still carry graphs, the shared trunk gets all of them, and one step uses them.
"""A2C with a shared trunk: a lift serves the floor with the longest queue."""
import argparse
from dataclasses import dataclass

import torch
from torch import nn

FLOORS = 5


@dataclass
class Config:
    updates: int = 260
    lifts: int = 64
    horizon: int = 16
    gamma: float = 0.8
    value_weight: float = 0.5
    entropy_weight: float = 0.005


class Building:
    def __init__(self, n):
        self.n = n

    def reset(self):
        self.queue = torch.rand(self.n, FLOORS)
        self.floor = torch.randint(0, FLOORS, (self.n,))
        return self.state()

    def state(self):
        return torch.cat([self.queue - 0.5, nn.functional.one_hot(self.floor, FLOORS).float()], 1)

    def step(self, goal):
        travel = (goal - self.floor).abs().float()
        served = self.queue.gather(1, goal[:, None]).squeeze(1)
        self.queue = self.queue.scatter(1, goal[:, None], 0.0)
        self.queue = (self.queue + 0.3 * torch.rand(self.n, FLOORS)).clamp(max=1.5)
        self.floor = goal
        return self.state(), served - 0.1 * travel


class ActorCritic(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(2 * FLOORS, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.policy = nn.Linear(width, FLOORS)
        self.value = nn.Linear(width, 1)

    def forward(self, s):
        h = self.trunk(s)
        return self.policy(h).log_softmax(-1), self.value(h).squeeze(-1)


def rollout(env, net, cfg):
    state = env.reset()
    states, actions, rewards = [], [], []
    with torch.no_grad():
        for _ in range(cfg.horizon):
            logp, _ = net(state)
            action = torch.multinomial(logp.exp(), 1).squeeze(1)
            states.append(state)
            actions.append(action)
            state, reward = env.step(action)
            rewards.append(reward)
        _, running = net(state)
    targets = []
    for reward in reversed(rewards):
        running = (1 - cfg.gamma) * reward + cfg.gamma * running
        targets.insert(0, running)
    return torch.cat(states), torch.cat(actions), torch.cat(targets), torch.stack(rewards).mean().item()


def main():
    cfg = Config()
    ap = argparse.ArgumentParser()
    ap.add_argument("--updates", type=int, default=cfg.updates)
    cfg.updates = ap.parse_args().updates
    torch.set_num_threads(1)
    torch.manual_seed(21)
    env, net = Building(cfg.lifts), ActorCritic()
    optimizer = torch.optim.Adam([
        {"params": net.trunk.parameters(), "lr": 1e-3},
        {"params": [*net.policy.parameters(), *net.value.parameters()], "lr": 2e-3},
    ])
    for update in range(1, cfg.updates + 1):
        states, actions, targets, reward = rollout(env, net, cfg)
        logp, values = net(states)
        advantage = (targets - values).detach()
        advantage = advantage / (advantage.std() + 1e-6)
        chosen = logp.gather(1, actions[:, None]).squeeze(1)
        policy_loss = -(chosen * advantage).mean()
        value_loss = (targets - values).square().mean()
        entropy = -(logp.exp() * logp).sum(1).mean()
        loss = policy_loss + cfg.value_weight * value_loss - cfg.entropy_weight * entropy
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        if update % 40 == 0:
            print(f"{update:4d} reward {reward:+.3f} value mse {value_loss.item():.4f} entropy {entropy.item():.3f}")


if __name__ == "__main__":
    main()
