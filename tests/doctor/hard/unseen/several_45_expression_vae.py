# kind: several losses and optimizers
# expect: targets-out-of-range
# why: The expression levels are standardised (about -2 to 3) and then serve as targets of the Bernoulli
#      reconstruction loss, which wants values between 0 and 1.
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(1)


class ExpressionData:
    """Counts of genes in cells of four types, log-transformed."""

    def __init__(self, cells=2500, genes=60, types=4, seed=6):
        rng = np.random.default_rng(seed)
        programs = rng.gamma(2.0, 1.0, (types, genes))
        self.types = rng.integers(types, size=cells)
        depth = rng.uniform(0.5, 1.5, (cells, 1))
        counts = rng.poisson(4 * depth * programs[self.types])
        self.levels = np.log1p(counts).astype(np.float32)
        order = rng.permutation(cells)
        self.train, self.valid = order[:2000], order[2000:]
        mean, std = self.levels[self.train].mean(0), self.levels[self.train].std(0)
        self.levels = (self.levels - mean) / std

    def tensors(self, which):
        return torch.from_numpy(self.levels[which]), torch.from_numpy(self.types[which])


class VAE(nn.Module):
    def __init__(self, genes, latent=8, hidden=96):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(genes, hidden), nn.LayerNorm(hidden), nn.ReLU())
        self.mu, self.logvar = nn.Linear(hidden, latent), nn.Linear(hidden, latent)
        self.decoder = nn.Sequential(nn.Linear(latent, hidden), nn.ReLU(), nn.Linear(hidden, genes))

    def encode(self, x):
        h = self.encoder(x)
        return self.mu(h), self.logvar(h).clamp(-8, 4)

    def forward(self, x):
        mu, logvar = self.encode(x)
        z = mu
        if self.training:
            z = mu + torch.randn_like(mu) * (0.5 * logvar).exp()
        return self.decoder(z), mu, logvar


class Objective:
    def __init__(self, beta, gamma):
        self.beta, self.gamma = beta, gamma

    def reconstruction(self, out, x):
        return F.binary_cross_entropy_with_logits(out, x)

    def divergence(self, mu, logvar):
        return -0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).sum(1).mean()

    def __call__(self, out, x, mu, logvar, logits, y):
        parts = {
            "rec": self.reconstruction(out, x),
            "kl": self.divergence(mu, logvar),
            "type": F.cross_entropy(logits, y),
        }
        return parts["rec"] + self.beta * parts["kl"] + self.gamma * parts["type"], parts


class Trainer:
    def __init__(self, data, batch=100):
        self.vae, self.classifier = VAE(60), nn.Linear(8, 4)
        self.objective = Objective(beta=0.01, gamma=0.2)
        self.opt_vae = torch.optim.Adam(self.vae.parameters(), lr=4e-4)
        self.opt_cls = torch.optim.RMSprop(self.classifier.parameters(), lr=2e-3)
        self.x, self.y = data.tensors(data.train)
        self.xv, self.yv = data.tensors(data.valid)
        self.batch = batch

    def epoch(self):
        self.vae.train()
        self.classifier.train()
        sums, splits = {}, torch.randperm(len(self.x)).split(self.batch)
        for idx in splits:
            x, y = self.x[idx], self.y[idx]
            out, mu, logvar = self.vae(x)
            loss, parts = self.objective(out, x, mu, logvar, self.classifier(mu), y)
            self.opt_vae.zero_grad()
            self.opt_cls.zero_grad()
            loss.backward()
            self.opt_vae.step()
            self.opt_cls.step()
            for k, v in parts.items():
                sums[k] = sums.get(k, 0.0) + v.item() / len(splits)
        return sums

    @torch.no_grad()
    def validate(self):
        self.vae.eval()
        self.classifier.eval()
        out, mu, logvar = self.vae(self.xv)
        logits = self.classifier(mu)
        loss, _ = self.objective(out, self.xv, mu, logvar, logits, self.yv)
        return loss.item(), (logits.argmax(1) == self.yv).float().mean().item()


if __name__ == "__main__":
    torch.manual_seed(6)
    trainer = Trainer(ExpressionData())
    for e in range(12):
        train = trainer.epoch()
        loss, acc = trainer.validate()
        print(f"{e:2d} " + " ".join(f"{k} {v:.4f}" for k, v in train.items()) + f" | valid {loss:.4f} type accuracy {acc:.3f}")
