# kind: several
# expect: nothing
# why: The generator's loss does leave gradients in the discriminator, but these are cleared before the discriminator's own backward;
#      the fake beats are detached there and the generator is judged in eval mode against held-out beats.
"""Generator of single ECG beats, trained against a convolutional discriminator."""
import argparse
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F


@dataclass
class Config:
    beats: int = 3000
    held_out: int = 600
    samples: int = 64
    latent: int = 16
    batch: int = 32
    steps: int = 400
    lr: float = 4e-4
    seed: int = 41


def make_beats(n: int, cfg: Config, gen: torch.Generator) -> Tensor:
    t = torch.linspace(-0.5, 0.5, cfg.samples)[None]

    def rand(low: float, high: float) -> Tensor:
        return low + (high - low) * torch.rand(n, 1, generator=gen)

    def wave(height: Tensor, at: Tensor, width: Tensor) -> Tensor:
        return height * torch.exp(-((t - at) ** 2) / (2 * width**2))

    beat = wave(rand(0.1, 0.25), rand(-0.26, -0.2), rand(0.03, 0.04))
    beat = beat + wave(rand(0.9, 1.3), rand(-0.01, 0.01), rand(0.015, 0.03))
    beat = beat - wave(rand(0.1, 0.35), rand(0.05, 0.07), rand(0.02, 0.03))
    beat = beat + wave(rand(0.2, 0.45), rand(0.24, 0.32), rand(0.05, 0.07))
    return beat + 0.02 * torch.randn(n, cfg.samples, generator=gen)


class Generator(nn.Module):
    def __init__(self, cfg: Config) -> None:
        super().__init__()
        self.start = nn.Sequential(nn.Linear(cfg.latent, 48 * 8), nn.BatchNorm1d(48 * 8), nn.ReLU())
        self.grow = nn.Sequential(
            nn.ConvTranspose1d(48, 32, 4, stride=2, padding=1), nn.BatchNorm1d(32), nn.ReLU(),
            nn.ConvTranspose1d(32, 24, 4, stride=2, padding=1), nn.BatchNorm1d(24), nn.ReLU(),
            nn.ConvTranspose1d(24, 16, 4, stride=2, padding=1), nn.ReLU(),
            nn.Conv1d(16, 1, 5, padding=2),
        )

    def forward(self, z: Tensor) -> Tensor:
        return self.grow(self.start(z).view(len(z), 48, 8)).squeeze(1)


class Discriminator(nn.Module):
    def __init__(self, cfg: Config) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv1d(1, 24, 5, stride=2, padding=2), nn.LeakyReLU(0.2), nn.Dropout(0.2),
            nn.Conv1d(24, 48, 5, stride=2, padding=2), nn.LeakyReLU(0.2), nn.Dropout(0.2),
            nn.Conv1d(48, 48, 5, stride=2, padding=2), nn.LeakyReLU(0.2), nn.Flatten(),
        )
        self.score = nn.Linear(48 * cfg.samples // 8, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.score(self.net(x[:, None])).squeeze(1)


class Duel:
    def __init__(self, cfg: Config) -> None:
        self.cfg = cfg
        self.g, self.d = Generator(cfg), Discriminator(cfg)
        self.g_opt = torch.optim.Adam(self.g.parameters(), lr=cfg.lr, betas=(0.5, 0.99))
        self.d_opt = torch.optim.Adam(self.d.parameters(), lr=cfg.lr, betas=(0.5, 0.99))

    def step(self, real: Tensor, gen: torch.Generator) -> tuple[float, float]:
        self.g.train()
        self.d.train()
        fake = self.g(torch.randn(len(real), self.cfg.latent, generator=gen))

        self.g_opt.zero_grad()
        g_loss = F.softplus(-self.d(fake)).mean()
        g_loss.backward()
        self.g_opt.step()

        self.d_opt.zero_grad()
        real_loss = F.binary_cross_entropy_with_logits(self.d(real), torch.full((len(real),), 0.9))
        fake_loss = F.softplus(self.d(fake.detach())).mean()
        d_loss = real_loss + fake_loss
        d_loss.backward()
        self.d_opt.step()
        return g_loss.item(), d_loss.item()

    @torch.no_grad()
    def judge(self, held_out: Tensor, z: Tensor) -> dict[str, float]:
        self.g.eval()
        made = self.g(z)
        spectrum_gap = torch.fft.rfft(made).abs().mean(0) - torch.fft.rfft(held_out).abs().mean(0)
        return {
            "mean": float((made.mean(0) - held_out.mean(0)).abs().mean()),
            "spread": float((made.std(0) - held_out.std(0)).abs().mean()),
            "spectrum": float(spectrum_gap.abs().mean()),
        }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=Config.steps)
    cfg = Config(steps=parser.parse_args().steps)
    torch.set_num_threads(1)
    torch.manual_seed(cfg.seed)
    gen = torch.Generator().manual_seed(cfg.seed)
    train, held_out = make_beats(cfg.beats, cfg, gen), make_beats(cfg.held_out, cfg, gen)
    mean, std = train.mean(), train.std()
    train, held_out = (train - mean) / std, (held_out - mean) / std
    probe = torch.randn(cfg.held_out, cfg.latent, generator=gen)

    duel, step = Duel(cfg), 0
    while step < cfg.steps:
        order = torch.randperm(len(train), generator=gen)
        for rows in order[: len(order) // cfg.batch * cfg.batch].split(cfg.batch):
            g_loss, d_loss = duel.step(train[rows], gen)
            step += 1
            if step % 100 == 0:
                gaps = " ".join(f"{k} {v:.3f}" for k, v in duel.judge(held_out, probe).items())
                print(f"step {step:4d} g {g_loss:.3f} d {d_loss:.3f} gaps: {gaps}")
            if step == cfg.steps:
                break


if __name__ == "__main__":
    main()
