# kind: several losses
# expect: foreign-gradients
# also: missing-zero-grad
# why: apply() clears only its own optimizer's gradients after the step; the actor's backward runs through the critic and leaves -dQ/dw in the critic's .grad, which the next critic backward adds onto, so the critic is also trained to raise its value of the policy's actions.
"""Deterministic policy for valve control: critic on a replay buffer, actor through the critic."""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(1)
torch.manual_seed(12)

STATE, ACTION = 6, 2


class Plant:
    """One-step control task: the best action is a nonlinear function of the state."""

    def __init__(self, seed):
        self.gen = torch.Generator().manual_seed(seed)
        self.mix = torch.randn(STATE, ACTION, generator=torch.Generator().manual_seed(100)) / STATE ** 0.5

    def states(self, n):
        return torch.randn(n, STATE, generator=self.gen)

    def reward(self, s, a):
        wanted = 0.8 * torch.tanh(1.5 * s @ self.mix)
        return -2.0 * (a - wanted).square().sum(1) + 0.1 * torch.randn(len(s), generator=self.gen)


class Replay:
    def __init__(self, size):
        self.s, self.a = torch.zeros(size, STATE), torch.zeros(size, ACTION)
        self.r, self.n, self.size = torch.zeros(size), 0, size

    def add(self, s, a, r):
        at = (self.n + torch.arange(len(s))) % self.size
        self.s[at], self.a[at], self.r[at] = s, a, r
        self.n += len(s)

    def sample(self, k):
        idx = torch.randint(0, min(self.n, self.size), (k,))
        return self.s[idx], self.a[idx], self.r[idx]


class Critic(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(STATE + ACTION, width), nn.SiLU(),
                                 nn.Linear(width, width), nn.SiLU(), nn.Linear(width, 1))

    def forward(self, s, a):
        return self.net(torch.cat([s, a], 1)).squeeze(1)


def actor_net(width=64):
    return nn.Sequential(nn.Linear(STATE, width), nn.SiLU(), nn.Linear(width, ACTION), nn.Tanh())


def apply(loss, optimizer, max_norm=5.0):
    loss.backward()
    params = [p for g in optimizer.param_groups for p in g["params"]]
    nn.utils.clip_grad_norm_(params, max_norm)
    optimizer.step()
    optimizer.zero_grad()
    return loss.item()


@torch.no_grad()
def audit(actor, critic, plant):
    s = plant.states(2000)
    a = actor(s)
    return plant.reward(s, a).mean().item(), critic(s, a).mean().item()


def main():
    plant, test_plant, replay = Plant(1), Plant(2), Replay(4000)
    actor, critic = actor_net(), Critic()
    opt_a = torch.optim.Adam(actor.parameters(), lr=1e-3)
    opt_c = torch.optim.Adam(critic.parameters(), lr=2e-3)
    for step in range(1, 601):
        with torch.no_grad():
            s = plant.states(16)
            a = (actor(s) + 0.3 * torch.randn(16, ACTION)).clamp(-1, 1)
        replay.add(s, a, plant.reward(s, a))

        s, a, r = replay.sample(64)
        critic_loss = apply(F.mse_loss(critic(s, a), r), opt_c)
        apply(-critic(s, actor(s)).mean(), opt_a)
        if step % 100 == 0:
            real, claimed = audit(actor, critic, test_plant)
            print(f"step {step:4d}  critic {critic_loss:.3f}  policy reward {real:.3f}  critic says {claimed:.3f}")


if __name__ == "__main__":
    main()
