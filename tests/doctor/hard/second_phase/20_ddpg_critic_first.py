# kind: in a second phase
# expect: foreign-gradients
# also: missing-zero-grad, diverging-loss
# why: the critic's gradients are cleared right after its own step, which is enough while it trains alone; once the actor's
#      loss runs through the critic as well, its gradients stay there and go into the critic's next step.
"""DDPG for a point that has to reach the origin; the critic is warmed up alone before the actor joins."""
import argparse
import copy

import torch
from torch import nn
from torch.nn import functional as F

torch.set_num_threads(1)


def dynamics(state, action):
    """Position and velocity in two dimensions; reward is minus the squared distance and effort."""
    pos, vel = state[:, :2], state[:, 2:]
    vel = 0.8 * vel + 0.3 * action
    pos = (pos + 0.3 * vel).clamp(-2, 2)
    reward = -pos.pow(2).sum(1) - 0.05 * action.pow(2).sum(1)
    return torch.cat([pos, vel], dim=1), reward


def collect(count, generator):
    """Random states and random actions: an offline replay memory."""
    state = torch.cat([2 * torch.rand(count, 2, generator=generator) - 1,
                       torch.randn(count, 2, generator=generator) * 0.3], dim=1)
    action = 2 * torch.rand(count, 2, generator=generator) - 1
    following, reward = dynamics(state, action)
    return state, action, reward, following


class Actor(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(4, 48), nn.ReLU(), nn.Linear(48, 2), nn.Tanh())


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(6, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, state, action):
        return self.net(torch.cat([state, action], dim=1)).squeeze(1)


@torch.no_grad()
def follow(target, source, rate=0.02):
    for t, s in zip(target.parameters(), source.parameters()):
        t.lerp_(s, rate)


@torch.no_grad()
def episode_return(actor, starts, steps=12):
    state, total = starts, torch.zeros(len(starts))
    for _ in range(steps):
        state, reward = dynamics(state, actor(state))
        total += reward
    return total.mean().item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--warmup", type=int, default=400)
    parser.add_argument("--steps", type=int, default=1200)
    parser.add_argument("--gamma", type=float, default=0.8)
    args = parser.parse_args()
    torch.manual_seed(6)
    generator = torch.Generator().manual_seed(6)
    memory = collect(8192, generator)
    starts = collect(256, generator)[0]
    actor, critic = Actor(), Critic()
    target_actor, target_critic = copy.deepcopy(actor), copy.deepcopy(critic)
    actor_opt = torch.optim.Adam(actor.parameters(), lr=5e-4)
    critic_opt = torch.optim.Adam(critic.parameters(), lr=2e-3)

    running = 0.0
    for step in range(1, args.steps + 1):
        idx = torch.randint(0, len(memory[0]), (64,))
        state, action, reward, following = (m[idx] for m in memory)
        with torch.no_grad():
            target = reward + args.gamma * target_critic(following, target_actor(following))
        critic_loss = F.mse_loss(critic(state, action), target)
        critic_loss.backward()
        critic_opt.step()
        critic_opt.zero_grad()
        running += critic_loss.item()

        if step > args.warmup:
            actor_loss = -critic(state, actor(state)).mean()
            actor_loss.backward()
            actor_opt.step()
            actor_opt.zero_grad()
            follow(target_actor, actor)
        follow(target_critic, critic)
        if step % 100 == 0:
            print(f"step {step}: critic loss {running / 100:.4f}  return {episode_return(actor, starts):.3f}")
            running = 0.0


if __name__ == "__main__":
    main()
