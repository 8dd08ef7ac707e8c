# kind: several losses and optimizers
# expect: nothing
# like: frozen-parameter-moves
# why: the revenue model is frozen only while the pricing policy takes its step through it, and is thawed again before
#      its own step; while frozen it does not move.
"""Deterministic policy gradient for one-shot fares: a revenue model and a policy that climbs it."""
import argparse
from contextlib import contextmanager

import torch
from torch import nn


class Market:
    def __init__(self, seed):
        self.gen = torch.Generator().manual_seed(seed)

    def contexts(self, n):
        return torch.randn(n, 6, generator=self.gen)

    @staticmethod
    def best(ctx):
        return 0.7 * torch.tanh(ctx[:, 0] + 0.5 * ctx[:, 1] * ctx[:, 2])

    def revenue(self, ctx, price):
        noise = 0.05 * torch.randn(len(ctx), generator=self.gen)
        return 1 - (price - self.best(ctx)).square() + noise


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(6, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, ctx):
        return torch.tanh(self.net(ctx)).squeeze(1)


class Revenue(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(7, 96), nn.ReLU(), nn.Linear(96, 96), nn.ReLU(), nn.Linear(96, 1))

    def forward(self, ctx, price):
        return self.net(torch.cat([ctx, price[:, None]], 1)).squeeze(1)


class Replay:
    def __init__(self, size):
        self.ctx, self.price, self.rev = torch.empty(size, 6), torch.empty(size), torch.empty(size)
        self.n = 0

    def add(self, ctx, price, rev):
        at = slice(self.n, self.n + len(ctx))
        self.ctx[at], self.price[at], self.rev[at] = ctx, price, rev
        self.n += len(ctx)

    def sample(self, k):
        rows = torch.randint(0, self.n, (k,))
        return self.ctx[rows], self.price[rows], self.rev[rows]


@contextmanager
def frozen(module):
    module.requires_grad_(False)
    yield module
    module.requires_grad_(True)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=700)
    args = ap.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(33)
    market, replay = Market(330), Replay(512 + args.steps * 16)
    test_ctx = Market(331).contexts(1000)
    policy, critic = Policy(), Revenue()
    policy_opt = torch.optim.Adam(policy.parameters(), lr=5e-4)
    critic_opt = torch.optim.Adam(critic.parameters(), lr=1e-3)
    ctx = market.contexts(512)
    price = torch.rand(512) * 2 - 1
    replay.add(ctx, price, market.revenue(ctx, price))

    for step in range(1, args.steps + 1):
        ctx = market.contexts(16)
        with torch.no_grad():
            price = (policy(ctx) + 0.3 * torch.randn(16)).clamp(-1, 1)
        replay.add(ctx, price, market.revenue(ctx, price))

        ctx, price, rev = replay.sample(128)
        critic_loss = nn.functional.mse_loss(critic(ctx, price), rev)
        critic_opt.zero_grad()
        critic_loss.backward()
        critic_opt.step()

        with frozen(critic):
            policy_loss = -critic(ctx, policy(ctx)).mean()
            policy_opt.zero_grad()
            policy_loss.backward()
            policy_opt.step()

        if step % 100 == 0:
            policy.eval()
            with torch.no_grad():
                regret = (policy(test_ctx) - market.best(test_ctx)).square().mean()
            policy.train()
            print(f"step {step:4d} critic {critic_loss.item():.4f} policy {policy_loss.item():+.4f} regret {regret:.4f}")


if __name__ == "__main__":
    main()
