# kind: second_phase
# expect: best-weights-aliased
# why: KeepBest stores v.detach().cpu(), which on the CPU is the live storage and no copy, so the "best" weights that are
#      put back at the end are the last ones.
"""Beta-VAE for short vibration signals, with early stopping and the best epoch restored."""
import math
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


@dataclass
class VAEConfig:
    length: int = 64
    latent: int = 12
    width: int = 160
    beta: float = 0.05
    epochs: int = 60
    patience: int = 15
    lr: float = 2e-3
    seed: int = 3
    callbacks: list = field(default_factory=lambda: ["keep_best", "printer"])


class VAE(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(cfg.length, cfg.width), nn.SiLU(), nn.Linear(cfg.width, cfg.width), nn.SiLU())
        self.mu = nn.Linear(cfg.width, cfg.latent)
        self.logvar = nn.Linear(cfg.width, cfg.latent)
        self.decoder = nn.Sequential(nn.Linear(cfg.latent, cfg.width), nn.SiLU(), nn.Linear(cfg.width, cfg.width), nn.SiLU(),
                                     nn.Linear(cfg.width, cfg.length))

    def forward(self, x):
        h = self.encoder(x)
        mu, logvar = self.mu(h), self.logvar(h).clamp(-8, 8)
        z = mu + torch.randn_like(mu) * (0.5 * logvar).exp() if self.training else mu
        return self.decoder(z), mu, logvar


def elbo(recon, x, mu, logvar, beta):
    kl = -0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).sum(1).mean() / x.shape[1]
    return F.mse_loss(recon, x) + beta * kl


class Callback:
    def on_epoch_end(self, trainer, metrics):
        pass

    def on_train_end(self, trainer):
        pass


class KeepBest(Callback):
    """Remembers the weights of the best validation epoch and stops after `patience` epochs without progress."""

    def __init__(self, patience):
        self.patience, self.best, self.age, self.weights = patience, math.inf, 0, None

    def on_epoch_end(self, trainer, metrics):
        self.age += 1
        if metrics["valid"] < self.best:
            self.best, self.age = metrics["valid"], 0
            self.weights = {k: v.detach().cpu() for k, v in trainer.model.state_dict().items()}
        trainer.should_stop = self.age >= self.patience

    def on_train_end(self, trainer):
        trainer.model.load_state_dict(self.weights)
        print(f"restored the weights of valid={self.best:.5f}")


class Printer(Callback):
    def on_epoch_end(self, trainer, metrics):
        if trainer.epoch % 5 == 0:
            print(f"epoch {trainer.epoch:3d}  train {metrics['train']:.5f}  valid {metrics['valid']:.5f}")


CALLBACKS = {"keep_best": lambda cfg: KeepBest(cfg.patience), "printer": lambda cfg: Printer()}


class Trainer:
    def __init__(self, cfg, model):
        self.cfg, self.model, self.should_stop, self.epoch = cfg, model, False, 0
        self.optimizer = torch.optim.Adam(model.parameters(), lr=cfg.lr)
        self.callbacks = [CALLBACKS[name](cfg) for name in cfg.callbacks]

    def train_epoch(self, loader):
        self.model.train()
        total, n = 0.0, 0
        for (x,) in loader:
            recon, mu, logvar = self.model(x)
            loss = elbo(recon, x, mu, logvar, self.cfg.beta)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            total, n = total + loss.item() * len(x), n + len(x)
        return total / n

    @torch.no_grad()
    def evaluate(self, loader):
        self.model.eval()
        total, n = 0.0, 0
        for (x,) in loader:
            recon, _, _ = self.model(x)
            total, n = total + F.mse_loss(recon, x).item() * len(x), n + len(x)
        return total / n

    def fit(self, train_loader, valid_loader):
        for self.epoch in range(self.cfg.epochs):
            metrics = {"train": self.train_epoch(train_loader), "valid": self.evaluate(valid_loader)}
            for cb in self.callbacks:
                cb.on_epoch_end(self, metrics)
            if self.should_stop:
                break
        for cb in self.callbacks:
            cb.on_train_end(self)


def vibrations(n, length, gen):
    t = torch.linspace(0, 1, length)
    freq = 2 + 6 * torch.rand(n, 2, 1, generator=gen)
    phase = 2 * math.pi * torch.rand(n, 2, 1, generator=gen)
    wave = torch.sin(2 * math.pi * freq * t + phase).sum(1)
    return wave + 0.2 * torch.randn(n, length, generator=gen)


def main():
    cfg = VAEConfig()
    torch.set_num_threads(1)
    torch.manual_seed(cfg.seed)
    gen = torch.Generator().manual_seed(cfg.seed)
    train, valid, test = (vibrations(n, cfg.length, gen) for n in (960, 512, 512))
    loader = DataLoader(TensorDataset(train), batch_size=32, shuffle=True)
    trainer = Trainer(cfg, VAE(cfg))
    trainer.fit(loader, DataLoader(TensorDataset(valid), batch_size=128))
    print(f"test reconstruction {trainer.evaluate(DataLoader(TensorDataset(test), batch_size=128)):.5f}")


if __name__ == "__main__":
    main()
