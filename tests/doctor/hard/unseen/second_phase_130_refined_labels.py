# kind: second_phase
# expect: stale-optimizer
# also: parameter-not-optimized, dead-parameter
# why: The RefineLabels hook puts a new, wider "kind" head into the ModuleDict at epoch 6, but the optimizer made in
#      Trainer.__init__ keeps the old head's parameters, so the new head stays at its initial weights.
"""Machine inspection: predict the kind of defect and the wear of a part from sensor features."""
import argparse
import logging
from collections import defaultdict
from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

log = logging.getLogger("inspect")


@dataclass
class Config:
    seed: int = 11
    features: int = 24
    width: int = 96
    coarse: int = 4
    fine: int = 8
    epochs: int = 16
    refine_at: int = 6
    batch_size: int = 64
    lr: float = 1e-3


class Inspector(nn.Module):
    def __init__(self, cfg: Config):
        super().__init__()
        self.trunk = nn.Sequential(
            nn.Linear(cfg.features, cfg.width), nn.GELU(), nn.LayerNorm(cfg.width), nn.Dropout(0.1),
            nn.Linear(cfg.width, cfg.width), nn.GELU(), nn.LayerNorm(cfg.width),
        )
        self.heads = nn.ModuleDict({"kind": self.make_head(cfg.width, cfg.coarse), "wear": self.make_head(cfg.width, 1)})

    @staticmethod
    def make_head(width, out):
        return nn.Sequential(nn.Linear(width, width // 2), nn.GELU(), nn.Linear(width // 2, out))

    def forward(self, x):
        z = self.trunk(x)
        return {name: head(z) for name, head in self.heads.items()}


class Trainer:
    def __init__(self, cfg, model, losses, weights):
        self.cfg, self.model, self.losses, self.weights = cfg, model, losses, weights
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=cfg.lr, weight_decay=1e-2)
        self.hooks = defaultdict(list)
        self.label_map = None
        self.epoch = 0

    def on(self, event):
        def register(fn):
            self.hooks[event].append(fn)
            return fn
        return register

    def emit(self, event, **kw):
        for fn in self.hooks[event]:
            fn(self, **kw)

    def targets(self, kind, wear):
        return {"kind": kind if self.label_map is None else self.label_map[kind], "wear": wear}

    def compute(self, x, kind, wear):
        out, target = self.model(x), self.targets(kind, wear)
        out["wear"] = out["wear"].squeeze(-1)
        parts = {k: self.losses[k](out[k], target[k]) for k in self.losses}
        return sum(self.weights[k] * v for k, v in parts.items()), out, target

    def fit(self, train_loader, valid_loader):
        for self.epoch in range(self.cfg.epochs):
            self.emit("epoch_start")
            self.model.train()
            for batch in train_loader:
                self.optimizer.zero_grad()
                loss, _, _ = self.compute(*batch)
                loss.backward()
                self.optimizer.step()
            self.emit("epoch_end", metrics=self.validate(valid_loader))

    @torch.no_grad()
    def validate(self, loader):
        self.model.eval()
        total, right, n = 0.0, 0, 0
        for batch in loader:
            loss, out, target = self.compute(*batch)
            total += loss.item() * len(batch[0])
            right += (out["kind"].argmax(1) == target["kind"]).sum().item()
            n += len(batch[0])
        return {"loss": total / n, "accuracy": right / n}


def make_data(cfg, n, gen, centres, direction):
    kind = torch.randint(0, cfg.fine, (n,), generator=gen)
    x = centres[kind] + torch.randn(n, cfg.features, generator=gen)
    x = x / (1 + centres.var(0)).sqrt()
    wear = torch.tanh(x @ direction) + 0.1 * torch.randn(n, generator=gen)
    return TensorDataset(x, kind, wear)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=Config.epochs)
    parser.add_argument("--lr", type=float, default=Config.lr)
    args = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    cfg = Config(epochs=args.epochs, lr=args.lr)
    torch.set_num_threads(1)
    torch.manual_seed(cfg.seed)
    gen = torch.Generator().manual_seed(cfg.seed)
    centres = 0.8 * torch.randn(cfg.fine, cfg.features, generator=gen)
    direction = torch.randn(cfg.features, generator=gen) / cfg.features**0.5
    train = make_data(cfg, 4096, gen, centres, direction)
    valid = make_data(cfg, 1024, gen, centres, direction)
    losses = {"kind": partial(F.cross_entropy, label_smoothing=0.05), "wear": partial(F.smooth_l1_loss, beta=0.5)}
    trainer = Trainer(cfg, Inspector(cfg), losses, {"kind": 1.0, "wear": 0.5})
    trainer.label_map = torch.arange(cfg.fine) // (cfg.fine // cfg.coarse)

    @trainer.on("epoch_start")
    def refine_labels(t):
        if t.epoch == cfg.refine_at:
            log.info("switching to %d fine labels", cfg.fine)
            t.model.heads["kind"] = t.model.make_head(cfg.width, cfg.fine)
            t.label_map = None

    @trainer.on("epoch_end")
    def report(t, metrics):
        log.info("epoch %2d  loss %.4f  accuracy %.3f", t.epoch, metrics["loss"], metrics["accuracy"])

    trainer.fit(DataLoader(train, cfg.batch_size, shuffle=True), DataLoader(valid, 256))


if __name__ == "__main__":
    main()
