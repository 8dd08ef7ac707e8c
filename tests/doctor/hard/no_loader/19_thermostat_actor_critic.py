# kind: without a DataLoader
# expect: foreign-gradients
# why: both losses are backpropagated before both steps, and the actor's loss runs through the critic, so the critic's step
#      adds the actor's gradient (raise Q everywhere) to its own and its values drift upwards.
"""Deterministic actor-critic for a one-step thermostat problem with a replay buffer."""
import argparse
from collections import deque
import random
import torch
from torch import nn
import torch.nn.functional as F


def rooms(n, g):
    """Outdoor temperature, occupancy, sun, price: all standardised."""
    return torch.randn(n, 4, generator=g)


def best_action(s):
    return torch.tanh(0.8 * s[:, 0] - 0.6 * s[:, 1] * s[:, 2] - 0.3 * s[:, 3])


def comfort(s, a, g):
    return 1.0 - 2.0 * (a - best_action(s)) ** 2 + 0.1 * torch.randn(len(s), generator=g)


class Actor(nn.Module):
    def __init__(self, h):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, h), nn.ReLU(), nn.Linear(h, h), nn.ReLU(), nn.Linear(h, 1), nn.Tanh())

    def forward(self, s):
        return self.net(s).squeeze(1)


class Critic(nn.Module):
    def __init__(self, h):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(5, h), nn.ReLU(), nn.Linear(h, h), nn.ReLU(), nn.Linear(h, 1))

    def forward(self, s, a):
        return self.net(torch.cat([s, a[:, None]], 1)).squeeze(1)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=700)
    ap.add_argument("--batch", type=int, default=96)
    args = ap.parse_args()
    random.seed(119)
    torch.manual_seed(119)
    torch.set_num_threads(1)
    g = torch.Generator().manual_seed(1190)
    actor, critic = Actor(64), Critic(64)
    actor_opt = torch.optim.Adam(actor.parameters(), lr=1e-3)
    critic_opt = torch.optim.Adam(critic.parameters(), lr=2e-3)
    buffer = deque(maxlen=200)
    held = rooms(1000, torch.Generator().manual_seed(1))
    sums = torch.zeros(2)
    for step in range(1, args.steps + 1):
        actor.train(), critic.train()
        s = rooms(32, g)
        with torch.no_grad():
            a = (actor(s) + 0.3 * torch.randn(len(s), generator=g)).clamp(-1, 1)
        buffer.append((s, a, comfort(s, a, g)))
        s, a, r = (torch.cat(t) for t in zip(*random.choices(buffer, k=args.batch // 32)))
        actor_opt.zero_grad()
        critic_opt.zero_grad()
        critic_loss = F.mse_loss(critic(s, a), r)
        critic_loss.backward()
        actor_loss = -critic(s, actor(s)).mean()
        actor_loss.backward()
        critic_opt.step()
        actor_opt.step()
        sums += torch.tensor([critic_loss.item(), actor_loss.item()])
        if step % 70 == 0:
            actor.eval(), critic.eval()
            with torch.no_grad():
                act = actor(held)
                real, believed = (1 - 2 * (act - best_action(held)) ** 2).mean(), critic(held, act).mean()
            print(f"step {step} critic {sums[0] / 70:.4f} actor {sums[1] / 70:.4f} true value {real:.3f} believed {believed:.3f}")
            sums.zero_()


if __name__ == "__main__":
    main()
