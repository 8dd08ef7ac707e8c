# kind: frameworks
# expect: foreign-gradients
# why: With manual optimization the generator's backward also leaves gradients in the critic; opt_g.zero_grad() does not
#      clear them and opt_d.zero_grad() ran before, so every critic step also uses gradients of the generator's loss.
"""Sharpen coarse 1-d signals with a reconstruction loss and a small adversarial term."""
from __future__ import annotations

import argparse
import math
import warnings
from dataclasses import dataclass

import lightning as L
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

warnings.filterwarnings("ignore", ".*does not have many workers.*")


@dataclass
class Config:
    length: int = 64
    width: int = 16
    lr_g: float = 2e-3
    lr_d: float = 1e-3
    adversarial: float = 0.03
    batch_size: int = 32
    epochs: int = 5


def make_signals(count: int, length: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    t = torch.linspace(0, 1, length)
    fine = torch.zeros(count, length)
    for _ in range(4):
        freq = torch.rand(count, 1, generator=generator) * 10 + 1
        phase = torch.rand(count, 1, generator=generator) * 2 * math.pi
        fine += torch.sin(2 * math.pi * freq * t + phase)
    fine = (fine / fine.std()).unsqueeze(1)
    coarse = F.interpolate(F.avg_pool1d(fine, 4), size=length, mode="linear", align_corners=False)
    coarse = coarse + 0.1 * torch.randn(coarse.shape, generator=generator)
    return coarse, fine


class Generator(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv1d(1, width, 7, padding=3), nn.GELU(),
            nn.Conv1d(width, width, 7, padding=3), nn.GELU(),
            nn.Conv1d(width, 1, 7, padding=3),
        )

    def forward(self, coarse: Tensor) -> Tensor:
        return coarse + self.body(coarse)


class Critic(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv1d(1, width, 5, stride=2, padding=2), nn.LeakyReLU(0.2),
            nn.Conv1d(width, width, 5, stride=2, padding=2), nn.LeakyReLU(0.2),
        )
        self.score = nn.Linear(width, 1)

    def forward(self, signal: Tensor) -> Tensor:
        return self.score(self.features(signal).mean(dim=-1))


class Sharpener(L.LightningModule):
    def __init__(self, cfg: Config) -> None:
        super().__init__()
        self.automatic_optimization = False
        self.cfg = cfg
        self.generator = Generator(cfg.width)
        self.critic = Critic(cfg.width)

    def critic_loss(self, real: Tensor, fake: Tensor) -> Tensor:
        on_real, on_fake = self.critic(real), self.critic(fake)
        loss_real = F.binary_cross_entropy_with_logits(on_real, torch.ones_like(on_real))
        loss_fake = F.binary_cross_entropy_with_logits(on_fake, torch.zeros_like(on_fake))
        return 0.5 * (loss_real + loss_fake)

    def training_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> None:
        coarse, fine = batch
        opt_g, opt_d = self.optimizers()

        with torch.no_grad():
            fake = self.generator(coarse)
        d_loss = self.critic_loss(fine, fake)
        self.manual_backward(d_loss)
        opt_d.step()
        opt_d.zero_grad()

        sharp = self.generator(coarse)
        score = self.critic(sharp)
        adversarial = F.binary_cross_entropy_with_logits(score, torch.ones_like(score))
        reconstruction = F.mse_loss(sharp, fine)
        g_loss = reconstruction + self.cfg.adversarial * adversarial
        self.manual_backward(g_loss)
        opt_g.step()
        opt_g.zero_grad()
        self.log_dict({"d_loss": d_loss.detach(), "g_mse": reconstruction.detach()}, on_step=False, on_epoch=True)

    def validation_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> None:
        coarse, fine = batch
        self.log("val_mse", F.mse_loss(self.generator(coarse), fine), batch_size=len(coarse))

    def on_validation_epoch_end(self) -> None:
        shown = {k: round(float(v), 4) for k, v in self.trainer.callback_metrics.items()}
        print(f"epoch {self.current_epoch}: {shown}")

    def configure_optimizers(self) -> list[torch.optim.Optimizer]:
        opt_g = torch.optim.Adam(self.generator.parameters(), lr=self.cfg.lr_g, betas=(0.5, 0.99))
        opt_d = torch.optim.Adam(self.critic.parameters(), lr=self.cfg.lr_d, betas=(0.5, 0.99))
        return [opt_g, opt_d]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--seed", type=int, default=7)
    args = parser.parse_args()
    torch.set_num_threads(1)
    L.seed_everything(args.seed)
    cfg = Config(epochs=args.epochs)
    source = torch.Generator().manual_seed(args.seed)
    train = TensorDataset(*make_signals(2048, cfg.length, source))
    valid = TensorDataset(*make_signals(256, cfg.length, source))
    trainer = L.Trainer(max_epochs=cfg.epochs, accelerator="cpu", devices=1, logger=False, enable_checkpointing=False,
                        enable_progress_bar=False, enable_model_summary=False, num_sanity_val_steps=0)
    trainer.fit(Sharpener(cfg), DataLoader(train, cfg.batch_size, shuffle=True), DataLoader(valid, cfg.batch_size))


if __name__ == "__main__":
    main()
