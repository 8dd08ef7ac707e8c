# kind: several
# expect: nothing
# why: WGAN-GP is right: the critic's gradient is the sum of three backward calls of one update (real, generated, penalty with create_graph), all cleared before; the critic is frozen while the generator trains and thawed after; samples come from an averaged copy of the generator in eval mode.
"""Wasserstein GAN with gradient penalty for short load signatures, sampled from averaged weights."""
import copy
import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Config:
    latent: int = 12
    length: int = 24
    batch: int = 64
    updates: int = 260
    critic_steps: int = 4
    penalty: float = 10.0
    decay: float = 0.98
    lr: float = 4e-4
    seed: int = 61


def signatures(n: int, length: int, gen: torch.Generator) -> Tensor:
    t = torch.linspace(0, 1, length)
    centre = 0.2 + 0.6 * torch.rand(n, 1, generator=gen)
    width = torch.where(torch.rand(n, 1, generator=gen) < 0.5, 0.06, 0.14)
    bump = torch.exp(-0.5 * ((t - centre) / width) ** 2)
    ripple = 0.15 * torch.sin(2 * math.pi * 4 * t + 6.3 * torch.rand(n, 1, generator=gen))
    return 1.6 * bump + ripple - 0.5 + 0.03 * torch.randn(n, length, generator=gen)


def generator(cfg: Config) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(cfg.latent, 96), nn.LayerNorm(96), nn.ReLU(), nn.Linear(96, 96), nn.LayerNorm(96), nn.ReLU(), nn.Linear(96, cfg.length),
    )


def critic(cfg: Config) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(cfg.length, 96), nn.LeakyReLU(0.2), nn.Linear(96, 96), nn.LeakyReLU(0.2), nn.Linear(96, 1),
    )


def gradient_penalty(net: nn.Module, real: Tensor, fake: Tensor) -> Tensor:
    mix = torch.rand(real.shape[0], 1)
    between = (mix * real + (1 - mix) * fake).requires_grad_(True)
    (slope,) = torch.autograd.grad(net(between).sum(), between, create_graph=True)
    return (slope.norm(2, dim=1) - 1).square().mean()


class Gan:
    def __init__(self, cfg: Config) -> None:
        self.cfg = cfg
        self.gen, self.critic = generator(cfg), critic(cfg)
        self.smooth = copy.deepcopy(self.gen).eval().requires_grad_(False)
        self.gen_opt = torch.optim.Adam(self.gen.parameters(), lr=cfg.lr, betas=(0.5, 0.9))
        self.critic_opt = torch.optim.Adam(self.critic.parameters(), lr=cfg.lr, betas=(0.5, 0.9))

    def noise(self, n: int) -> Tensor:
        return torch.randn(n, self.cfg.latent)

    def critic_update(self, real: Tensor) -> float:
        with torch.no_grad():
            fake = self.gen(self.noise(real.shape[0]))
        self.critic_opt.zero_grad()
        on_real = self.critic(real).mean()
        (-on_real).backward()
        on_fake = self.critic(fake).mean()
        on_fake.backward()
        (self.cfg.penalty * gradient_penalty(self.critic, real, fake)).backward()
        self.critic_opt.step()
        return (on_real - on_fake).item()

    def generator_update(self) -> float:
        self.critic.requires_grad_(False)
        loss = -self.critic(self.gen(self.noise(self.cfg.batch))).mean()
        self.gen_opt.zero_grad()
        loss.backward()
        self.gen_opt.step()
        self.critic.requires_grad_(True)
        with torch.no_grad():
            for s, p in zip(self.smooth.parameters(), self.gen.parameters(), strict=True):
                s.lerp_(p, 1 - self.cfg.decay)
        return loss.item()


@torch.inference_mode()
def sliced_distance(gan: Gan, held: Tensor, seed: int) -> float:
    """Mean sliced Wasserstein-1 distance between held-out and generated signatures."""
    rng = torch.Generator().manual_seed(seed)
    z = torch.randn(held.shape[0], gan.cfg.latent, generator=rng)
    axes = torch.nn.functional.normalize(torch.randn(gan.cfg.length, 64, generator=rng), dim=0)
    made = gan.smooth(z)
    return ((held @ axes).sort(0).values - (made @ axes).sort(0).values).abs().mean().item()


def main() -> None:
    cfg = Config()
    torch.set_num_threads(1)
    torch.manual_seed(cfg.seed)
    source = torch.Generator().manual_seed(cfg.seed)
    train, held = signatures(4000, cfg.length, source).split([3200, 800])
    gan = Gan(cfg)
    for update in range(1, cfg.updates + 1):
        for _ in range(cfg.critic_steps):
            distance = gan.critic_update(train[torch.randint(0, len(train), (cfg.batch,))])
        loss = gan.generator_update()
        if update % 52 == 0:
            print(f"update {update:4d} critic {distance:.4f} generator {loss:.4f} sliced {sliced_distance(gan, held, 5):.4f}")


if __name__ == "__main__":
    main()
