# kind: numbers
# expect: nothing
# why: Might be accused of leaf-written-in-place, symmetric-weights, inputs-not-scaled or best-weights-aliased: ActNorm is set once from the first batch, raw columns are standardised inside the model, coupling outputs start at zero on purpose and the best weights are cloned.
"""RealNVP density estimation on six correlated sensor channels, with early stopping on held-out likelihood."""
import logging
import math
from dataclasses import dataclass

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split

log = logging.getLogger("flow")


@dataclass(frozen=True)
class Settings:
    dim: int = 6
    blocks: int = 6
    width: int = 48
    batch: int = 128
    epochs: int = 22
    patience: int = 6


def sensors(n, gen):
    a, b = torch.randn(n, generator=gen), torch.rand(n, generator=gen) * 2 * math.pi
    noise = 0.05 * torch.randn(n, 6, generator=gen)
    cols = [b.cos() + 0.3 * a, b.sin(), 0.5 * a**2, a, a * b.cos(), torch.tanh(2 * a) - b.sin()]
    return (torch.stack(cols, 1) + noise) * torch.tensor([40.0, 3.0, 0.2, 900.0, 7.0, 1.0]) + torch.tensor([250.0, 0, 1, -300, 5, 0])


class ActNorm(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.shift, self.log_scale = nn.Parameter(torch.zeros(dim)), nn.Parameter(torch.zeros(dim))
        self.register_buffer("ready", torch.tensor(False))

    def forward(self, x):
        if self.training and not self.ready:
            with torch.no_grad():
                self.shift.copy_(-x.mean(0))
                self.log_scale.copy_(-x.std(0).clamp_min(1e-3).log())
                self.ready.fill_(True)
        return (x + self.shift) * self.log_scale.exp(), self.log_scale.sum().expand(len(x))


class Coupling(nn.Module):
    def __init__(self, dim, width, flip):
        super().__init__()
        mask = torch.arange(dim) % 2 == (1 if flip else 0)
        self.register_buffer("mask", mask.float())
        self.net = nn.Sequential(nn.Linear(dim, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 2 * dim))
        nn.init.zeros_(self.net[-1].weight)
        nn.init.zeros_(self.net[-1].bias)
        self.gain = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        s, t = self.net(x * self.mask).chunk(2, dim=1)
        free = 1 - self.mask
        s = torch.tanh(s) * self.gain * free
        return x * self.mask + free * (x * s.exp() + t), s.sum(dim=1)


class Flow(nn.Module):
    def __init__(self, cfg, mean, std):
        super().__init__()
        self.register_buffer("mean", mean)
        self.register_buffer("std", std)
        steps = []
        for i in range(cfg.blocks):
            steps += [ActNorm(cfg.dim), Coupling(cfg.dim, cfg.width, flip=i % 2 == 1)]
        self.steps = nn.ModuleList(steps)

    def log_prob(self, x):
        z = (x - self.mean) / self.std
        log_det = torch.zeros(len(x))
        for step in self.steps:
            z, change = step(z)
            log_det = log_det + change
        base = -0.5 * (z.pow(2) + math.log(2 * math.pi)).sum(dim=1)
        return base + log_det  # density of the standardised data; the constant of the scaling is left out

    forward = log_prob


def held_out(flow, loader):
    flow.eval()
    total, count = 0.0, 0
    with torch.no_grad():
        for (x,) in loader:
            total -= flow(x).sum().item()
            count += len(x)
    return total / count


def fit(flow, train, valid, cfg):
    optimizer = torch.optim.Adam(flow.parameters(), lr=1e-3)
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, mode="min", factor=0.5, patience=2)
    best, kept, waited = math.inf, None, 0
    for epoch in range(1, cfg.epochs + 1):
        flow.train()
        total, count = 0.0, 0
        for (x,) in train:
            loss = -flow(x).mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_value_(flow.parameters(), 1.0)
            optimizer.step()
            total, count = total + loss.item() * len(x), count + len(x)
        score = held_out(flow, valid)
        plateau.step(score)
        if score < best:
            best, waited = score, 0
            kept = {name: value.detach().clone() for name, value in flow.state_dict().items()}
        else:
            waited += 1
        if epoch % 5 == 0 or waited >= cfg.patience:
            log.info("epoch %d  train %.4f  valid %.4f  best %.4f", epoch, total / count, score, best)
        if waited >= cfg.patience:
            break
    flow.load_state_dict(kept)
    return best


def main():
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    torch.set_num_threads(1)
    torch.manual_seed(2)
    cfg = Settings()
    everything = TensorDataset(sensors(4600, torch.Generator().manual_seed(4)))
    train, valid, test = random_split(everything, [3400, 600, 600])
    seen = everything.tensors[0][train.indices]
    flow = Flow(cfg, seen.mean(0), seen.std(0))
    best = fit(flow, DataLoader(train, cfg.batch, shuffle=True), DataLoader(valid, 512), cfg)
    log.info("best validation %.4f, test %.4f nats", best, held_out(flow, DataLoader(test, 512)))


if __name__ == "__main__":
    main()
