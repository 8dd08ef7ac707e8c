# kind: no_loader
# expect: nothing
# why: PPO reuses each rollout for a few epochs in shuffled minibatches, with old log-probabilities and returns taken under no_grad; the gradients are clipped inside the optimizer's own step, before they are used.
"""PPO on a vectorised docking task, with an Adam that clips the global norm itself."""
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.distributions import Normal


@dataclass
class Config:
    envs: int = 32
    horizon: int = 40
    iterations: int = 30
    epochs: int = 4
    minibatch: int = 256
    gamma: float = 0.97
    lam: float = 0.95
    clip: float = 0.2
    entropy: float = 1e-3
    lr: float = 1.5e-3
    seed: int = 9


class ClippedAdam(torch.optim.Optimizer):
    def __init__(self, params: Iterable[nn.Parameter], lr: float, max_norm: float, betas: tuple[float, float] = (0.9, 0.99)) -> None:
        super().__init__(params, {"lr": lr, "max_norm": max_norm, "betas": betas, "eps": 1e-6})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            params = [p for p in group["params"] if p.grad is not None]
            norm = torch.stack([p.grad.norm() for p in params]).norm()
            scale = (group["max_norm"] / (norm + 1e-6)).clamp(max=1.0)
            for p in params:
                self._update(p, p.grad * scale, group)
        return loss

    def _update(self, p: Tensor, grad: Tensor, group: dict) -> None:
        state = self.state[p]
        if not state:
            state["step"], state["m"], state["v"] = 0, torch.zeros_like(p), torch.zeros_like(p)
        b1, b2 = group["betas"]
        state["step"] += 1
        state["m"].lerp_(grad, 1 - b1)
        state["v"].mul_(b2).addcmul_(grad, grad, value=1 - b2)
        m = state["m"] / (1 - b1 ** state["step"])
        v = state["v"] / (1 - b2 ** state["step"])
        p.addcdiv_(m, v.sqrt() + group["eps"], value=-group["lr"])


class Docking:
    """A point mass that should come to rest at the origin."""

    def __init__(self, n: int, gen: torch.Generator) -> None:
        self.gen, self.n = gen, n
        self.reset()

    def reset(self) -> Tensor:
        self.pos = 2 * torch.rand(self.n, 2, generator=self.gen) - 1
        self.vel = 0.4 * torch.randn(self.n, 2, generator=self.gen)
        return self.observe()

    def observe(self) -> Tensor:
        return torch.cat([self.pos, self.vel], 1)

    def step(self, action: Tensor) -> tuple[Tensor, Tensor]:
        force = action.clamp(-1, 1)
        self.vel = 0.95 * self.vel + 0.2 * force
        self.pos = (self.pos + 0.2 * self.vel).clamp(-3, 3)
        cost = self.pos.square().sum(1) + 0.1 * self.vel.square().sum(1) + 0.02 * force.square().sum(1)
        return self.observe(), -0.2 * cost


class ActorCritic(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.actor = nn.Sequential(nn.Linear(4, 48), nn.Tanh(), nn.Linear(48, 48), nn.Tanh(), nn.Linear(48, 2))
        self.critic = nn.Sequential(nn.Linear(4, 48), nn.Tanh(), nn.Linear(48, 48), nn.Tanh(), nn.Linear(48, 1))
        self.log_std = nn.Parameter(torch.full((2,), -0.5))
        with torch.no_grad():
            self.actor[-1].weight.mul_(0.1)

    def forward(self, obs: Tensor) -> tuple[Normal, Tensor]:
        return Normal(self.actor(obs), self.log_std.exp()), self.critic(obs).squeeze(-1)


@torch.no_grad()
def rollout(env: Docking, model: ActorCritic, cfg: Config) -> dict[str, Tensor]:
    obs, rows = env.reset(), []
    for _ in range(cfg.horizon):
        dist, value = model(obs)
        action = dist.sample()
        after, reward = env.step(action)
        rows.append((obs, action, dist.log_prob(action).sum(-1), reward, value))
        obs = after
    seen, action, logp, reward, value = (torch.stack(column) for column in zip(*rows))
    following, advantage = model(obs)[1], torch.zeros_like(reward)
    running = torch.zeros(cfg.envs)
    for t in reversed(range(cfg.horizon)):
        delta = reward[t] + cfg.gamma * following - value[t]
        running = delta + cfg.gamma * cfg.lam * running
        advantage[t], following = running, value[t]
    data = {"obs": seen, "action": action, "logp": logp, "adv": advantage, "ret": advantage + value}
    return {"reward": reward.sum(0).mean(), **{k: v.flatten(0, 1) for k, v in data.items()}}


def ppo_loss(model: ActorCritic, mb: dict[str, Tensor], cfg: Config) -> Tensor:
    dist, value = model(mb["obs"])
    ratio = (dist.log_prob(mb["action"]).sum(-1) - mb["logp"]).exp()
    adv = (mb["adv"] - mb["adv"].mean()) / (mb["adv"].std() + 1e-6)
    policy = -torch.min(ratio * adv, ratio.clamp(1 - cfg.clip, 1 + cfg.clip) * adv).mean()
    return policy + 0.5 * (value - mb["ret"]).square().mean() - cfg.entropy * dist.entropy().sum(-1).mean()


@torch.inference_mode()
def evaluate(model: ActorCritic, cfg: Config, seed: int) -> float:
    model.eval()
    env = Docking(64, torch.Generator().manual_seed(seed))
    obs, total = env.reset(), torch.zeros(64)
    for _ in range(cfg.horizon):
        obs, reward = env.step(model(obs)[0].mean)
        total += reward
    model.train()
    return total.mean().item()


def main() -> None:
    cfg = Config()
    torch.set_num_threads(1)
    torch.manual_seed(cfg.seed)
    env, model = Docking(cfg.envs, torch.Generator().manual_seed(cfg.seed)), ActorCritic()
    opt = ClippedAdam(model.parameters(), cfg.lr, max_norm=0.5)
    for iteration in range(cfg.iterations):
        for group in opt.param_groups:
            group["lr"] = cfg.lr * 0.5 * (1 + math.cos(math.pi * iteration / cfg.iterations))
        data = rollout(env, model, cfg)
        reward = data.pop("reward")
        for _ in range(cfg.epochs):
            for index in torch.randperm(len(data["obs"])).split(cfg.minibatch):
                loss = ppo_loss(model, {k: v[index] for k, v in data.items()}, cfg)
                opt.zero_grad()
                loss.backward()
                opt.step()
        if iteration % 5 == 4:
            print(f"iteration {iteration:2d} return {reward.item():7.3f} greedy {evaluate(model, cfg, 1000):7.3f}")


if __name__ == "__main__":
    main()
