# kind: several
# expect: foreign-gradients
# also: missing-zero-grad
# why: The critic's gradients are cleared right after its own step, before the generator's backward runs through the critic; what
#      that leaves behind is added to the critic's next step.
"""Signal denoising with an L1 term and a small adversarial term."""
import logging
import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

log = logging.getLogger("denoise")


@dataclass
class Settings:
    length: int = 64
    batch_size: int = 32
    epochs: int = 8
    lr_generator: float = 1e-3
    lr_critic: float = 4e-4
    adversarial: float = 0.05
    seed: int = 31


class Denoiser(nn.Module):
    def __init__(self, channels=24):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv1d(1, channels, 7, padding=3), nn.GELU(),
            nn.Conv1d(channels, channels, 7, padding=3), nn.GELU(),
            nn.Conv1d(channels, 1, 7, padding=3),
        )

    def forward(self, x):
        return x - self.net(x)


class Critic(nn.Module):
    def __init__(self, channels=16):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv1d(1, channels, 5, stride=2, padding=2), nn.LeakyReLU(0.2),
            nn.Conv1d(channels, 2 * channels, 5, stride=2, padding=2), nn.LeakyReLU(0.2),
            nn.AdaptiveAvgPool1d(4), nn.Flatten(), nn.Linear(8 * channels, 1),
        )

    def forward(self, x):
        return self.net(x).squeeze(1)


def make_signals(n, length, gen):
    t = torch.linspace(0, 1, length)
    freq = 1 + 5 * torch.rand(n, 1, generator=gen)
    phase = 2 * math.pi * torch.rand(n, 1, generator=gen)
    square = torch.sign(torch.sin(2 * math.pi * freq * t + phase))
    ramp = 2 * torch.rand(n, 1, generator=gen) * (t - 0.5)
    clean = (square + ramp).unsqueeze(1)
    return TensorDataset(clean + 0.5 * torch.randn(clean.shape, generator=gen), clean)


class AdversarialTrainer:
    def __init__(self, cfg, generator, critic):
        self.cfg, self.generator, self.critic = cfg, generator, critic
        self.opt_g = torch.optim.Adam(generator.parameters(), lr=cfg.lr_generator, betas=(0.5, 0.99))
        self.opt_c = torch.optim.Adam(critic.parameters(), lr=cfg.lr_critic, betas=(0.5, 0.99))
        self.history = []

    def critic_loss(self, clean, fake):
        real_score, fake_score = self.critic(clean), self.critic(fake)
        return 0.5 * (F.softplus(-real_score).mean() + F.softplus(fake_score).mean())

    def generator_loss(self, clean, fake):
        return F.l1_loss(fake, clean) + self.cfg.adversarial * F.softplus(-self.critic(fake)).mean()

    @staticmethod
    def apply(loss, optimizer):
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.item()

    def train_batch(self, noisy, clean):
        with torch.no_grad():
            fake = self.generator(noisy)
        loss_c = self.apply(self.critic_loss(clean, fake), self.opt_c)
        loss_g = self.apply(self.generator_loss(clean, self.generator(noisy)), self.opt_g)
        return loss_c, loss_g

    def fit(self, train_loader, valid_loader):
        for epoch in range(self.cfg.epochs):
            self.generator.train()
            self.critic.train()
            losses = [self.train_batch(noisy, clean) for noisy, clean in train_loader]
            loss_c, loss_g = torch.tensor(losses).mean(0).tolist()
            self.history.append(self.validate(valid_loader))
            log.info("epoch %2d  critic %.4f  generator %.4f  valid l1 %.4f", epoch, loss_c, loss_g, self.history[-1])

    @torch.no_grad()
    def validate(self, loader):
        self.generator.eval()
        total, n = 0.0, 0
        for noisy, clean in loader:
            total += F.l1_loss(self.generator(noisy), clean).item() * len(noisy)
            n += len(noisy)
        return total / n


def main():
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    cfg = Settings()
    torch.set_num_threads(1)
    torch.manual_seed(cfg.seed)
    gen = torch.Generator().manual_seed(cfg.seed)
    train_loader = DataLoader(make_signals(2048, cfg.length, gen), cfg.batch_size, shuffle=True, drop_last=True)
    valid_loader = DataLoader(make_signals(512, cfg.length, gen), 128)
    AdversarialTrainer(cfg, Denoiser(), Critic()).fit(train_loader, valid_loader)


if __name__ == "__main__":
    main()
