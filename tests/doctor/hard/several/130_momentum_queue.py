# kind: several
# expect: teacher-shares-weights
# why: The key encoder is made by copy.copy, which shares the parameter tensors and submodules with the query encoder, so there
#      is no slowly moving encoder and the momentum update does nothing.
"""Contrastive pretraining with a momentum encoder and a queue of negatives, scored by nearest neighbours."""
import copy
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class Config:
    inputs: int = 48
    width: int = 128
    dim: int = 32
    queue: int = 1024
    momentum: float = 0.99
    temperature: float = 0.2
    batch_size: int = 128
    epochs: int = 3
    lr: float = 1e-3
    seed: int = 8


class Encoder(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(cfg.inputs, cfg.width), nn.LayerNorm(cfg.width), nn.GELU(),
            nn.Linear(cfg.width, cfg.width), nn.LayerNorm(cfg.width), nn.GELU(),
        )
        self.projector = nn.Sequential(nn.Linear(cfg.width, cfg.width), nn.GELU(), nn.Linear(cfg.width, cfg.dim))

    def forward(self, x):
        return F.normalize(self.projector(self.body(x)), dim=1)


class MomentumEncoder(nn.Module):
    """A copy of an encoder that follows it slowly and never gets gradients."""

    def __init__(self, encoder, momentum):
        super().__init__()
        self.net = copy.copy(encoder)
        self.momentum = momentum

    @torch.no_grad()
    def forward(self, x):
        return self.net(x)

    @torch.no_grad()
    def follow(self, encoder):
        for mine, theirs in zip(self.net.parameters(), encoder.parameters()):
            mine.lerp_(theirs, 1.0 - self.momentum)


class KeyQueue:
    def __init__(self, size, dim, gen):
        self.keys = F.normalize(torch.randn(size, dim, generator=gen), dim=1)
        self.pos = 0

    def push(self, keys):
        n = len(keys)
        self.keys[self.pos:self.pos + n] = keys
        self.pos = (self.pos + n) % len(self.keys)


def info_nce(query, key, negatives, temperature):
    positive = (query * key).sum(1, keepdim=True)
    logits = torch.cat([positive, query @ negatives.T], dim=1) / temperature
    return F.cross_entropy(logits, torch.zeros(len(query), dtype=torch.long))


def augment(x, gen):
    keep = (torch.rand(x.shape, generator=gen) > 0.25).float()
    gain = 1 + 0.2 * torch.randn(len(x), 1, generator=gen)
    return gain * (x + 0.3 * torch.randn(x.shape, generator=gen)) * keep


def make_data(n, cfg, gen, basis, centres):
    label = torch.randint(0, len(centres), (n,), generator=gen)
    latent = centres[label] + 0.6 * torch.randn(n, centres.shape[1], generator=gen)
    x = torch.tanh(latent @ basis) + 0.1 * torch.randn(n, cfg.inputs, generator=gen)
    return x / 0.75, label


@torch.no_grad()
def neighbour_accuracy(encoder, train, valid, k=15):
    encoder.eval()
    bank, query = encoder(train[0]), encoder(valid[0])
    nearest = (query @ bank.T).topk(k, dim=1).indices
    votes = F.one_hot(train[1][nearest]).sum(1)
    encoder.train()
    return (votes.argmax(1) == valid[1]).float().mean().item()


def train_epoch(cfg, encoder, follower, queue, optimizer, x, gen):
    total, batches = 0.0, torch.randperm(len(x), generator=gen).split(cfg.batch_size)
    for idx in batches:
        first, second = augment(x[idx], gen), augment(x[idx], gen)
        keys = follower(second)
        loss = info_nce(encoder(first), keys, queue.keys.clone(), cfg.temperature)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        follower.follow(encoder)
        queue.push(keys)
        total += loss.item()
    return total / len(batches)


def main():
    cfg = Config()
    torch.set_num_threads(1)
    torch.manual_seed(cfg.seed)
    gen = torch.Generator().manual_seed(cfg.seed)
    basis, centres = torch.randn(8, cfg.inputs, generator=gen) / 2, 1.2 * torch.randn(6, 8, generator=gen)
    train, valid = make_data(4096, cfg, gen, basis, centres), make_data(512, cfg, gen, basis, centres)
    encoder = Encoder(cfg)
    follower = MomentumEncoder(encoder, cfg.momentum)
    queue = KeyQueue(cfg.queue, cfg.dim, gen)
    optimizer = torch.optim.AdamW(encoder.parameters(), lr=cfg.lr, weight_decay=1e-4)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=cfg.epochs)
    for epoch in range(cfg.epochs):
        loss = train_epoch(cfg, encoder, follower, queue, optimizer, train[0], gen)
        scheduler.step()
        print(f"epoch {epoch:2d}  loss {loss:.4f}  knn {neighbour_accuracy(encoder, train, valid):.3f}")


if __name__ == "__main__":
    main()
