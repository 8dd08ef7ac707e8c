# kind: second_phase
# expect: best-weights-aliased
# why: EarlyStopping keeps v.to("cpu"), on the CPU the live storage; putting the best back restores the last weights.
"""Pretrain a character model on a large general source, adapt it to a small one with early stopping."""
from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset


@dataclass
class Config:
    vocab: int = 24
    length: int = 24
    dim: int = 32
    hidden: int = 64
    batch: int = 32
    pretrain_epochs: int = 2
    tune_epochs: int = 40
    patience: int = 6
    lr: float = 3e-3
    tune_lr: float = 6e-3
    seed: int = 11


def markov(vocab: int, sharpness: float, gen: torch.Generator) -> torch.Tensor:
    return torch.softmax(sharpness * torch.randn(vocab, vocab, generator=gen), dim=1)


def sample(table: torch.Tensor, n: int, length: int, gen: torch.Generator) -> torch.Tensor:
    out = torch.empty(n, length, dtype=torch.long)
    out[:, 0] = torch.randint(0, len(table), (n,), generator=gen)
    for t in range(1, length):
        out[:, t] = torch.multinomial(table[out[:, t - 1]], 1, generator=gen).squeeze(1)
    return out


class CharModel(nn.Module):
    def __init__(self, cfg: Config) -> None:
        super().__init__()
        self.embed = nn.Embedding(cfg.vocab, cfg.dim)
        self.rnn = nn.GRU(cfg.dim, cfg.hidden, batch_first=True)
        self.drop = nn.Dropout(0.1)
        self.head = nn.Linear(cfg.hidden, cfg.vocab)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        hidden, _ = self.rnn(self.embed(tokens))
        return self.head(self.drop(hidden))


def token_loss(model: nn.Module, batch: torch.Tensor) -> torch.Tensor:
    logits = model(batch[:, :-1])
    return F.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())


@torch.no_grad()
def evaluate(model: nn.Module, loader: DataLoader) -> float:
    model.eval()
    total, seen = 0.0, 0
    for (batch,) in loader:
        total += token_loss(model, batch).item() * len(batch)
        seen += len(batch)
    return total / seen


class EarlyStopping:
    """Keeps the state of the best epoch off the accelerator."""

    def __init__(self, patience: int) -> None:
        self.patience = patience
        self.best = math.inf
        self.best_epoch = -1
        self.state: dict[str, torch.Tensor] = {}

    def update(self, epoch: int, value: float, model: nn.Module) -> bool:
        if value < self.best - 1e-4:
            self.best, self.best_epoch = value, epoch
            self.state = {k: v.detach().to("cpu") for k, v in model.state_dict().items()}
        return epoch - self.best_epoch >= self.patience

    def restore(self, model: nn.Module) -> None:
        model.load_state_dict(self.state)


def train_epoch(model: nn.Module, loader: DataLoader, opt: torch.optim.Optimizer) -> float:
    model.train()
    total = 0.0
    for (batch,) in loader:
        opt.zero_grad(set_to_none=True)
        loss = token_loss(model, batch)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        total += loss.item()
    return total / len(loader)


def loaders(cfg: Config, *parts: torch.Tensor) -> list[DataLoader]:
    train, *rest = parts
    first = DataLoader(TensorDataset(train), batch_size=cfg.batch, shuffle=True, drop_last=True)
    return [first, *(DataLoader(TensorDataset(p), batch_size=128) for p in rest)]


def main(cfg: Config) -> None:
    torch.manual_seed(cfg.seed)
    torch.set_num_threads(1)
    gen = torch.Generator().manual_seed(cfg.seed)
    general, special = markov(cfg.vocab, 1.2, gen), markov(cfg.vocab, 1.6, gen)
    special = 0.4 * general + 0.6 * special

    model = CharModel(cfg)
    train, valid = loaders(cfg, sample(general, 3072, cfg.length, gen), sample(general, 512, cfg.length, gen))
    opt = torch.optim.Adam(model.parameters(), lr=cfg.lr)
    for epoch in range(cfg.pretrain_epochs):
        loss = train_epoch(model, train, opt)
        print(f"[pretrain] {epoch} train {loss:.4f} valid {evaluate(model, valid):.4f}")

    small = [sample(special, n, cfg.length, gen) for n in (192, 256, 512)]
    train, valid, test = loaders(cfg, *small)
    opt = torch.optim.AdamW(model.parameters(), lr=cfg.tune_lr, weight_decay=0.01)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=cfg.tune_epochs, eta_min=cfg.tune_lr * 0.2)
    stopper = EarlyStopping(cfg.patience)
    for epoch in range(cfg.tune_epochs):
        loss = train_epoch(model, train, opt)
        sched.step()
        score = evaluate(model, valid)
        print(f"[adapt] {epoch} train {loss:.4f} valid {score:.4f}")
        if stopper.update(epoch, score, model):
            break
    stopper.restore(model)
    print(f"best epoch {stopper.best_epoch} valid {stopper.best:.4f} test {evaluate(model, test):.4f}")


if __name__ == "__main__":
    main(Config())
