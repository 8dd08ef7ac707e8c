# kind: without a DataLoader
# expect: nothing
# like: graph-kept
# why: log-probabilities are kept together with their graphs, but only for one batch of episodes: they make up the policy
#      gradient loss and the list dies with the function; what is logged are floats.
"""REINFORCE with a baseline on a windy corridor: 24 episodes at a time are simulated in parallel."""
import argparse
import torch
from torch import nn


class Corridor:
    """Walk from the left to the goal at +1; the wind blows according to a flag that the agent can see."""

    def __init__(self, n, g):
        self.n, self.g = n, g

    def reset(self):
        self.pos = -torch.rand(self.n, generator=self.g)
        self.wind = (torch.rand(self.n, generator=self.g) < 0.5).float() * 2 - 1
        return self.observe()

    def observe(self):
        return torch.stack([self.pos, self.wind, self.pos * self.wind], 1)

    def step(self, action):
        push = torch.tensor([-0.15, 0.0, 0.15])[action]
        self.pos = (self.pos + push * self.wind + 0.03 * torch.randn(self.n, generator=self.g)).clamp(-1.5, 1.5)
        return self.observe(), -(self.pos - 1).abs()


def rollout(policy, env, steps):
    obs, logps, ents, rewards, seen = env.reset(), [], [], [], []
    for _ in range(steps):
        dist = torch.distributions.Categorical(logits=policy(obs))
        action = dist.sample()
        logps.append(dist.log_prob(action))
        ents.append(dist.entropy())
        seen.append(obs)
        obs, r = env.step(action)
        rewards.append(r)
    return torch.stack(logps), torch.stack(ents), torch.stack(rewards), torch.stack(seen)


def to_go(rewards, gamma):
    out, acc = [], torch.zeros_like(rewards[0])
    for r in rewards.flip(0):
        acc = (1 - gamma) * r + gamma * acc
        out.append(acc)
    return torch.stack(out[::-1])


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--updates", type=int, default=250)
    ap.add_argument("--episodes", type=int, default=24)
    ap.add_argument("--horizon", type=int, default=16)
    args = ap.parse_args()
    torch.manual_seed(112)
    torch.set_num_threads(1)
    env = Corridor(args.episodes, torch.Generator().manual_seed(1120))
    policy = nn.Sequential(nn.Linear(3, 32), nn.Tanh(), nn.Linear(32, 3))
    value = nn.Sequential(nn.Linear(3, 32), nn.Tanh(), nn.Linear(32, 1))
    opt = torch.optim.Adam([*policy.parameters(), *value.parameters()], lr=3e-3)
    history = []
    for update in range(1, args.updates + 1):
        logp, ent, rewards, seen = rollout(policy, env, args.horizon)
        returns = to_go(rewards, 0.9)
        baseline = value(seen).squeeze(-1)
        adv = returns - baseline.detach()
        adv = (adv - adv.mean()) / (adv.std() + 1e-6)
        loss = -(logp * adv).mean() - 0.01 * ent.mean() + (returns - baseline).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        history.append((loss.item(), rewards[-1].mean().item()))
        if update % 25 == 0:
            l, r = torch.tensor(history[-25:]).mean(0).tolist()
            print(f"update {update} loss {l:.4f} mean final reward {r:.4f}")


if __name__ == "__main__":
    main()
