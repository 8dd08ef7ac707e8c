# kind: inside frameworks
# expect: foreign-gradients
# why: Manual optimization, generator first: its backward also fills the critic's gradients, nothing is toggled and
#      opt_d.zero_grad() only comes after the critic's step, so the critic steps with the generator's gradients too.
import logging
import warnings
from types import SimpleNamespace

import lightning as L
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
warnings.filterwarnings("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)

cfg = SimpleNamespace(latent=8, length=32, batch=64, epochs=6, lr_g=1e-3, lr_d=1e-3, n_train=3200, n_valid=512)


def pulses(n, seed):
    """Damped oscillations with random frequency and delay, scaled to unit variance."""
    g = torch.Generator().manual_seed(seed)
    t = torch.linspace(0, 1, cfg.length)
    freq = 2 + 3 * torch.rand(n, 1, generator=g)
    delay = 0.3 * torch.rand(n, 1, generator=g)
    live = (t > delay).float()
    wave = live * torch.exp(-3 * (t - delay).clamp(min=0)) * torch.sin(6.283 * freq * (t - delay))
    return (wave - 0.05) / 0.38


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(cfg.latent, 64), nn.LeakyReLU(0.2), nn.Linear(64, 64), nn.LeakyReLU(0.2),
                                 nn.Linear(64, cfg.length))

    def forward(self, z):
        return self.net(z)


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv1d(1, 16, 5, stride=2, padding=2), nn.LeakyReLU(0.2),
                                  nn.Conv1d(16, 32, 5, stride=2, padding=2), nn.LeakyReLU(0.2))
        self.fc = nn.Linear(32 * cfg.length // 4, 1)

    def forward(self, x):
        return self.fc(self.conv(x.unsqueeze(1)).flatten(1)).squeeze(1)


class PulseGAN(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.automatic_optimization = False
        self.generator, self.critic = Generator(), Critic()
        self.history = {"g": [], "d": []}
        self.register_buffer("fixed_z", torch.randn(cfg.n_valid, cfg.latent))

    def configure_optimizers(self):
        opt_g = torch.optim.Adam(self.generator.parameters(), lr=cfg.lr_g, betas=(0.5, 0.99))
        opt_d = torch.optim.Adam(self.critic.parameters(), lr=cfg.lr_d, betas=(0.5, 0.99))
        return [opt_g, opt_d]

    def training_step(self, batch, batch_idx):
        (real,) = batch
        opt_g, opt_d = self.optimizers()
        z = torch.randn(len(real), cfg.latent)

        fake = self.generator(z)
        g_loss = F.softplus(-self.critic(fake)).mean()
        self.manual_backward(g_loss)
        opt_g.step()
        opt_g.zero_grad()

        d_loss = F.softplus(-self.critic(real)).mean() + F.softplus(self.critic(fake.detach())).mean()
        self.manual_backward(d_loss)
        opt_d.step()
        opt_d.zero_grad()

        self.history["g"].append(g_loss.item())
        self.history["d"].append(d_loss.item())

    def validation_step(self, batch, batch_idx):
        (real,) = batch
        fake = self.generator(self.fixed_z)
        gap = (real.mean(0) - fake.mean(0)).abs().mean() + (real.std(0) - fake.std(0)).abs().mean()
        self.log("val_gap", gap, batch_size=len(real))

    def on_validation_epoch_end(self):
        if self.trainer.sanity_checking:
            return
        last = {k: sum(v[-50:]) / 50 for k, v in self.history.items()}
        gap = self.trainer.callback_metrics["val_gap"].item()
        print(f"epoch {self.current_epoch}: g {last['g']:.3f} d {last['d']:.3f} gap {gap:.3f}")


def main():
    L.seed_everything(12)
    train = DataLoader(TensorDataset(pulses(cfg.n_train, 1)), cfg.batch, shuffle=True, drop_last=True)
    valid = DataLoader(TensorDataset(pulses(cfg.n_valid, 2)), cfg.n_valid)
    trainer = L.Trainer(max_epochs=cfg.epochs, accelerator="cpu", devices=1, logger=False,
                        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
    trainer.fit(PulseGAN(), train, valid)


main()
