# kind: indirection
# expect: clip-of-nothing
# why: The parameters are an itertools.chain that the optimizer has already read to its end; the partial of clip_grad_norm_ made from
#      the same chain therefore clips an empty list at every step.
"""Latent dynamics model of a pendulum on a cart, trained on multi-step rollouts with occasional sensor glitches."""
import argparse
import itertools
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F


@dataclass
class Config:
    episodes: int = 320
    length: int = 60
    unroll: int = 8
    latent: int = 24
    batch: int = 64
    steps: int = 500
    lr: float = 2e-3
    max_norm: float = 0.5
    seed: int = 21


def simulate(n: int, cfg: Config, gen: torch.Generator) -> dict[str, Tensor]:
    x, v = torch.zeros(n), 0.2 * torch.randn(n, generator=gen)
    angle, rate = torch.rand(n, generator=gen) * 2 * math.pi, torch.randn(n, generator=gen)
    frames, actions = [], []
    for _ in range(cfg.length):
        frames.append(torch.stack([x, v, angle.sin(), angle.cos(), rate / 3], 1))
        force = torch.randn(n, generator=gen)
        actions.append(force[:, None])
        rate = rate + 0.08 * (-2.0 * angle.sin() + 0.6 * force * angle.cos() - 0.1 * rate)
        angle = angle + 0.08 * rate
        v = v + 0.08 * (force - 0.3 * v - 0.2 * x)
        x = x + 0.08 * v
    obs = torch.stack(frames, 1)
    obs = obs + 0.02 * torch.randn(obs.shape, generator=gen)
    glitch = torch.rand(n, cfg.length, 1, generator=gen) < 0.004
    return {"obs": torch.where(glitch, obs * 4, obs), "act": torch.stack(actions, 1)}


def draw_windows(data: dict[str, Tensor], cfg: Config, gen: torch.Generator) -> tuple[Tensor, Tensor]:
    episodes = torch.randint(len(data["obs"]), (cfg.batch, 1), generator=gen)
    start = torch.randint(cfg.length - cfg.unroll, (cfg.batch, 1), generator=gen)
    times = start + torch.arange(cfg.unroll + 1)
    return data["obs"][episodes, times], data["act"][episodes, times[:, :-1]]


class Dynamics(nn.Module):
    def __init__(self, latent: int, action: int) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(latent + action, 96), nn.SiLU(), nn.Linear(96, latent))

    def forward(self, z: Tensor, a: Tensor) -> Tensor:
        return z + self.net(torch.cat([z, a], dim=-1))


def build(cfg: Config) -> dict[str, nn.Module]:
    return {
        "encoder": nn.Sequential(nn.Linear(5, 64), nn.SiLU(), nn.Linear(64, cfg.latent)),
        "dynamics": Dynamics(cfg.latent, 1),
        "decoder": nn.Sequential(nn.Linear(cfg.latent, 64), nn.SiLU(), nn.Linear(64, 5)),
    }


def unroll(parts: dict[str, nn.Module], obs: Tensor, act: Tensor) -> Tensor:
    z = parts["encoder"](obs[:, 0])
    outputs = []
    for k in range(act.shape[1]):
        z = parts["dynamics"](z, act[:, k])
        outputs.append(parts["decoder"](z))
    return torch.stack(outputs, dim=1)


def make_update(
    weights: Iterable[Tensor], optimizer: torch.optim.Optimizer, max_norm: float
) -> Callable[[Callable[[], Tensor]], float]:
    clip = partial(nn.utils.clip_grad_norm_, weights, max_norm=max_norm)

    def update(closure: Callable[[], Tensor]) -> float:
        optimizer.zero_grad()
        loss = closure()
        loss.backward()
        clip()
        optimizer.step()
        return loss.item()

    return update


@torch.no_grad()
def evaluate(parts: dict[str, nn.Module], data: dict[str, Tensor], cfg: Config) -> float:
    for part in parts.values():
        part.eval()
    errors = []
    for start in range(0, cfg.length - cfg.unroll, cfg.unroll):
        stop = start + cfg.unroll
        prediction = unroll(parts, data["obs"][:, start:stop + 1], data["act"][:, start:stop])
        errors.append((prediction - data["obs"][:, start + 1:stop + 1]).abs().flatten())
    for part in parts.values():
        part.train()
    return float(torch.cat(errors).median())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=Config.steps)
    parser.add_argument("--max-norm", type=float, default=Config.max_norm)
    args = parser.parse_args()
    cfg = Config(steps=args.steps, max_norm=args.max_norm)
    torch.set_num_threads(1)
    torch.manual_seed(cfg.seed)
    gen = torch.Generator().manual_seed(cfg.seed)

    train, valid = simulate(cfg.episodes, cfg, gen), simulate(60, cfg, gen)
    mean, std = train["obs"].mean((0, 1)), train["obs"].std((0, 1))
    for part in (train, valid):
        part["obs"] = (part["obs"] - mean) / std

    parts = build(cfg)
    weights = itertools.chain.from_iterable(part.parameters() for part in parts.values())
    optimizer = torch.optim.AdamW(weights, lr=cfg.lr, weight_decay=1e-4)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=cfg.steps)
    update = make_update(weights, optimizer, cfg.max_norm)

    for step in range(1, cfg.steps + 1):
        obs, act = draw_windows(train, cfg, gen)
        loss = update(lambda obs=obs, act=act: F.mse_loss(unroll(parts, obs, act), obs[:, 1:]))
        scheduler.step()
        if step % 100 == 0:
            print(f"step {step:4d} loss {loss:.4f} valid median error {evaluate(parts, valid, cfg):.4f}")


if __name__ == "__main__":
    main()
