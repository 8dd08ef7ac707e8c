# kind: inside frameworks
# expect: nothing
# like: loss-summed
# why: both terms of the ELBO are sums over pixels and latents, as they must be, and the total is divided by the number of
#      pictures, so the step does not depend on the batch size.
"""Variational autoencoder for small bar pictures, trained with Ignite."""
import argparse

import torch
from ignite.engine import Engine, Events
from ignite.metrics import Average, RunningAverage
from ignite.utils import manual_seed
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def make_bars(count, generator, size=12):
    rows = torch.rand(count, size, 1, generator=generator) < 0.2
    columns = torch.rand(count, 1, size, generator=generator) < 0.2
    picture = (rows | columns).float()
    noise = 0.15 * torch.rand(count, size, size, generator=generator)
    return TensorDataset((picture - noise).abs().flatten(1))


class VAE(nn.Module):
    def __init__(self, pixels=144, hidden=96, latent=10):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(pixels, hidden), nn.ReLU())
        self.mean = nn.Linear(hidden, latent)
        self.logvar = nn.Linear(hidden, latent)
        self.decoder = nn.Sequential(nn.Linear(latent, hidden), nn.ReLU(), nn.Linear(hidden, pixels))

    def forward(self, x):
        h = self.encoder(2 * x - 1)
        mean, logvar = self.mean(h), self.logvar(h)
        z = mean
        if self.training:
            z = mean + torch.randn_like(mean) * (0.5 * logvar).exp()
        return self.decoder(z), mean, logvar


def negative_elbo(x, logits, mean, logvar, beta=1.0):
    reconstruction = F.binary_cross_entropy_with_logits(logits, x, reduction="sum")
    kl = -0.5 * torch.sum(1 + logvar - mean.pow(2) - logvar.exp())
    return (reconstruction + beta * kl) / x.size(0)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--lr", type=float, default=2e-3)
    args = parser.parse_args()

    manual_seed(52)
    generator = torch.Generator().manual_seed(52)
    train_loader = DataLoader(make_bars(4096, generator), batch_size=64, shuffle=True)
    valid_loader = DataLoader(make_bars(1024, generator), batch_size=256)
    model = VAE()
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)

    def update(engine, batch):
        model.train()
        (x,) = batch
        optimizer.zero_grad()
        loss = negative_elbo(x, *model(x))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 50.0)
        optimizer.step()
        return loss.item()

    def infer(engine, batch):
        model.eval()
        with torch.no_grad():
            (x,) = batch
            return negative_elbo(x, *model(x)).item()

    trainer, evaluator = Engine(update), Engine(infer)
    RunningAverage(output_transform=lambda loss: loss).attach(trainer, "loss")
    Average().attach(evaluator, "loss")

    @trainer.on(Events.EPOCH_COMPLETED(every=2))
    def report(engine):
        evaluator.run(valid_loader)
        print(f"epoch {engine.state.epoch}: train -ELBO {engine.state.metrics['loss']:.2f}  "
              f"valid (mean code) {evaluator.state.metrics['loss']:.2f}")

    trainer.run(train_loader, max_epochs=args.epochs)


if __name__ == "__main__":
    main()
