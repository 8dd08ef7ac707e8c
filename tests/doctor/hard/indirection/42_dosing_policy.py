# kind: behind indirection
# expect: nothing
# like: foreign-gradients
# why: The policy's loss runs through the critic, whose gradients are cleared only after its own step, but a context
#      manager switches the critic's requires_grad off for that backward, so nothing foreign is ever left in it.
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn, optim
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


@dataclass(frozen=True)
class Hyper:
    seed: int = 41
    epochs: int = 9
    batch: int = 64
    critic_lr: float = 2e-3
    actor_lr: float = 1e-3


def ideal(s: Tensor) -> Tensor:
    return torch.stack([torch.tanh(s[:, 0] - 0.5 * s[:, 1]), 0.7 * torch.sin(s[:, 2] + s[:, 3])], 1)


def outcome(s: Tensor, a: Tensor) -> Tensor:
    return 1.0 - (a - ideal(s)).pow(2).sum(1)


@contextmanager
def constant(module: nn.Module):
    params = list(module.parameters())
    for p in params:
        p.requires_grad_(False)
    try:
        yield module
    finally:
        for p in params:
            p.requires_grad_(True)


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.f = nn.Sequential(nn.Linear(6, 64), nn.SiLU(), nn.Linear(64, 64), nn.SiLU(), nn.Linear(64, 1))

    def forward(self, s, a):
        return self.f(torch.cat([s, a], 1)).squeeze(1)


class Actor(nn.Module):
    def __init__(self):
        super().__init__()
        self.f = nn.Sequential(nn.Linear(4, 48), nn.SiLU(), nn.Linear(48, 2), nn.Tanh())

    def forward(self, s):
        return self.f(s)


class Agent:
    def __init__(self, hp: Hyper):
        self.critic, self.actor = Critic(), Actor()
        self.opts = {
            "critic": optim.Adam(self.critic.parameters(), lr=hp.critic_lr),
            "actor": optim.Adam(self.actor.parameters(), lr=hp.actor_lr),
        }
        for o in self.opts.values():
            o.register_step_post_hook(lambda o, *_: o.zero_grad())

    def _do(self, who: str, loss: Tensor) -> float:
        loss.backward()
        self.opts[who].step()
        return loss.item()

    def learn(self, s, a, r):
        c = self._do("critic", nn.functional.mse_loss(self.critic(s, a), r))
        with constant(self.critic) as q:
            p = self._do("actor", -q(s, self.actor(s)).mean())
        return c, p

    def train(self, on: bool = True):
        self.critic.train(on)
        self.actor.train(on)


def main(hp: Hyper = Hyper()):
    torch.manual_seed(hp.seed)
    g = torch.Generator().manual_seed(hp.seed + 1)
    s = torch.randn(2400, 4, generator=g)
    a = torch.rand(2400, 2, generator=g) * 2 - 1
    raw = outcome(s, a) + 0.1 * torch.randn(2400, generator=g)
    n = 1920
    m, d = raw[:n].mean(), raw[:n].std()
    r = (raw - m) / d
    log = DataLoader(TensorDataset(s[:n], a[:n], r[:n]), hp.batch, shuffle=True)
    agent = Agent(hp)
    for epoch in range(hp.epochs):
        agent.train()
        c_sum = p_sum = 0.0
        for batch in log:
            c, p = agent.learn(*batch)
            c_sum, p_sum = c_sum + c, p_sum + p
        agent.train(False)
        with torch.no_grad():
            fit = (agent.critic(s[n:], a[n:]) - r[n:]).pow(2).mean().item()
            value = outcome(s[n:], agent.actor(s[n:])).mean().item()
        print(f"{epoch} critic {c_sum / len(log):.4f} actor {p_sum / len(log):+.4f} | valid fit {fit:.4f} true outcome {value:.4f}")


main()
