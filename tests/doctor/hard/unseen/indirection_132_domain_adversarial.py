# kind: indirection
# expect: nothing
# why: Right: the reversed gradient is the method, functional dropout is told the module's mode, accumulated losses are divided by the
#      size of their own group (the shorter last one too), and the averaged model gets its own BatchNorm statistics by update_bn.
"""Domain-adversarial training with a gradient reversal function, gradient accumulation and an averaged model."""
import copy
from collections import defaultdict
from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F
from torch import nn
from torch.optim.swa_utils import update_bn
from torch.utils.data import DataLoader, TensorDataset


@dataclass
class Config:
    inputs: int = 20
    width: int = 64
    classes: int = 4
    epochs: int = 12
    batch_size: int = 32
    accumulate: int = 3
    lr: float = 2e-3
    ema: float = 0.98
    adversary: float = 0.3
    seed: int = 53


class Reverse(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, strength):
        ctx.strength = strength
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        return -ctx.strength * grad, None


class Block(nn.Module):
    def __init__(self, inputs, outputs, drop):
        super().__init__()
        self.linear, self.norm, self.drop = nn.Linear(inputs, outputs, bias=False), nn.BatchNorm1d(outputs), drop

    def forward(self, x):
        return self.drop(F.relu(self.norm(self.linear(x))), training=self.training)


class DomainNet(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        drop = partial(F.dropout, p=0.1)
        self.body = nn.Sequential(Block(cfg.inputs, cfg.width, drop), Block(cfg.width, cfg.width, drop))
        self.heads = nn.ModuleDict({"label": nn.Linear(cfg.width, cfg.classes),
                                    "domain": nn.Sequential(nn.Linear(cfg.width, 32), nn.ReLU(), nn.Linear(32, 1))})

    def forward(self, x, strength=0.0):
        z = self.body(x)
        return self.heads["label"](z), self.heads["domain"](Reverse.apply(z, strength)).squeeze(1)


class Trainer:
    def __init__(self, cfg, model):
        self.cfg, self.model = cfg, model
        self.average = copy.deepcopy(model).requires_grad_(False).eval()
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=cfg.lr, weight_decay=1e-3)
        self.hooks, self.step, self.epoch = defaultdict(list), 0, 0
        self.hooks["after_step"].append(Trainer.update_average)

    def fire(self, event, *args):
        for hook in self.hooks[event]:
            hook(self, *args)

    @torch.no_grad()
    def update_average(self):
        decay = min(self.cfg.ema, (1 + self.step) / (10 + self.step))
        for slow, fast in zip(self.average.parameters(), self.model.parameters()):
            slow.lerp_(fast, 1 - decay)

    def loss(self, source, label, target):
        domain = torch.cat([torch.zeros(len(source)), torch.ones(len(target))])
        logits, guess = self.model(torch.cat([source, target]), strength=self.cfg.adversary)
        return F.cross_entropy(logits[:len(source)], label) + F.binary_cross_entropy_with_logits(guess, domain)

    def groups(self, *loaders):
        """Lists of up to `accumulate` batches; the last list of an epoch may be shorter."""
        group = []
        for (source, label), (target,) in zip(*loaders):
            group.append((source, label, target))
            if len(group) == self.cfg.accumulate:
                yield group
                group = []
        if group:
            yield group

    def fit(self, source_loader, target_loader, mixed_loader, valid_loader):
        for self.epoch in range(self.cfg.epochs):
            self.model.train()
            for group in self.groups(source_loader, target_loader):
                self.optimizer.zero_grad()
                for batch in group:
                    (self.loss(*batch) / len(group)).backward()
                nn.utils.clip_grad_norm_(self.model.parameters(), 2.0)
                self.optimizer.step()
                self.step += 1
                self.fire("after_step")
            update_bn(mixed_loader, self.average)
            self.fire("after_epoch", accuracy(self.model, valid_loader), accuracy(self.average, valid_loader))


@torch.no_grad()
def accuracy(model, loader):
    model.eval()
    right, n = 0, 0
    for x, y in loader:
        logits, _ = model(x)
        right += (logits.argmax(1) == y).sum().item()
        n += len(y)
    return right / n


def make_domain(n, cfg, gen, centres, shift):
    y = torch.randint(0, cfg.classes, (n,), generator=gen)
    return centres[y] + shift + torch.randn(n, cfg.inputs, generator=gen), y


def main():
    cfg = Config()
    torch.set_num_threads(1)
    torch.manual_seed(cfg.seed)
    gen = torch.Generator().manual_seed(cfg.seed)
    centres, shift = 0.9 * torch.randn(cfg.classes, cfg.inputs, generator=gen), 0.5 * torch.randn(cfg.inputs, generator=gen)
    source = make_domain(3200, cfg, gen, centres, 0.0)
    target, _ = make_domain(3200, cfg, gen, centres, shift)
    valid = make_domain(1024, cfg, gen, centres, shift)
    trainer = Trainer(cfg, DomainNet(cfg))

    def report(t, live, averaged):
        print(f"epoch {t.epoch:2d}  target accuracy {live:.3f}  averaged {averaged:.3f}")

    trainer.hooks["after_epoch"].append(report)
    loader = partial(DataLoader, batch_size=cfg.batch_size, shuffle=True)
    mixed = TensorDataset(torch.cat([source[0], target]))
    valid_loader = DataLoader(TensorDataset(*valid), 256)
    trainer.fit(loader(TensorDataset(*source)), loader(TensorDataset(target)), loader(mixed), valid_loader)


if __name__ == "__main__":
    main()
