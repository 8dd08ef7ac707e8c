# kind: second_phase
# expect: stale-optimizer
# also: parameter-not-optimized
# why: merge_and_restart() puts new Parameters A and B into every adapter while the optimizer keeps the old ones, so after
#   the first merge (step 150 of the tuning phase) the adapters no longer train; only the new head does.
"""Pretrain a bag-of-tokens classifier on topics, then tune it on sentiment with restarted low-rank adapters."""
import argparse
import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset


@dataclass
class Config:
    vocab: int = 400
    length: int = 24
    width: int = 96
    rank: int = 4
    pretrain_epochs: int = 5
    tune_epochs: int = 12
    merge_every: int = 150
    batch_size: int = 64
    lr: float = 2e-3
    seed: int = 11


class LowRankLinear(nn.Module):
    def __init__(self, base: nn.Linear, rank: int) -> None:
        super().__init__()
        self.base = base
        self.rank = rank
        for p in self.base.parameters():
            p.requires_grad_(False)
        self.restart()

    def restart(self) -> None:
        self.A = nn.Parameter(torch.randn(self.rank, self.base.in_features) / math.sqrt(self.base.in_features))
        self.B = nn.Parameter(torch.zeros(self.base.out_features, self.rank))

    @torch.no_grad()
    def merge(self) -> None:
        self.base.weight += self.B @ self.A

    def forward(self, x: Tensor) -> Tensor:
        return self.base(x) + F.linear(F.linear(x, self.A), self.B)


class TextNet(nn.Module):
    def __init__(self, cfg: Config, n_classes: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(cfg.vocab, cfg.width)
        self.fc1 = nn.Linear(cfg.width, cfg.width)
        self.fc2 = nn.Linear(cfg.width, cfg.width)
        self.norm = nn.LayerNorm(cfg.width)
        self.head = nn.Linear(cfg.width, n_classes)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens).mean(1)
        x = x + F.gelu(self.fc1(x))
        x = x + F.gelu(self.fc2(x))
        return self.head(self.norm(x))


def make_corpus(cfg: Config, n_classes: int, n: int, seed: int) -> TensorDataset:
    tables = torch.Generator().manual_seed(1000 + n_classes)
    logits = 1.1 * torch.randn(n_classes, cfg.vocab, generator=tables)
    g = torch.Generator().manual_seed(seed)
    labels = torch.randint(n_classes, (n,), generator=g)
    tokens = torch.multinomial(logits.softmax(-1)[labels], cfg.length, replacement=True, generator=g)
    noise = torch.rand(n, cfg.length, generator=g) < 0.5
    tokens = torch.where(noise, torch.randint(cfg.vocab, tokens.shape, generator=g), tokens)
    return TensorDataset(tokens, labels)


@torch.no_grad()
def accuracy(model: nn.Module, data: TensorDataset) -> float:
    model.eval()
    tokens, labels = data.tensors
    result = (model(tokens).argmax(-1) == labels).float().mean().item()
    model.train()
    return result


def add_adapters(model: TextNet, cfg: Config) -> None:
    for p in model.parameters():
        p.requires_grad_(False)
    model.fc1 = LowRankLinear(model.fc1, cfg.rank)
    model.fc2 = LowRankLinear(model.fc2, cfg.rank)


def merge_and_restart(model: nn.Module) -> None:
    for module in model.modules():
        if isinstance(module, LowRankLinear):
            module.merge()
            module.restart()


def fit(model, optimizer, train, valid, epochs, batch_size, seed, on_step=None) -> None:
    loader = DataLoader(train, batch_size, shuffle=True, drop_last=True, generator=torch.Generator().manual_seed(seed))
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs * len(loader), eta_min=2e-4)
    step = 0
    for epoch in range(epochs):
        total = 0.0
        for tokens, labels in loader:
            loss = F.cross_entropy(model(tokens), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            step += 1
            total += loss.item()
            if on_step is not None:
                on_step(step)
        print(f"  epoch {epoch} loss {total / len(loader):.4f} valid acc {accuracy(model, valid):.3f}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--merge-every", type=int, default=Config.merge_every)
    cfg = Config(merge_every=parser.parse_args().merge_every)
    torch.manual_seed(cfg.seed)
    torch.set_num_threads(1)

    model = TextNet(cfg, n_classes=8)
    print("pretraining on topics")
    optimizer = torch.optim.AdamW(model.parameters(), lr=cfg.lr, weight_decay=0.01)
    fit(model, optimizer, make_corpus(cfg, 8, 4096, 1), make_corpus(cfg, 8, 800, 2), cfg.pretrain_epochs, cfg.batch_size, 5)

    print("tuning on sentiment")
    add_adapters(model, cfg)
    model.head = nn.Linear(cfg.width, 3)
    trainable = [p for p in model.parameters() if p.requires_grad]
    print(f"  {sum(p.numel() for p in trainable)} trainable of {sum(p.numel() for p in model.parameters())}")
    optimizer = torch.optim.AdamW(trainable, lr=cfg.lr, weight_decay=0.0)

    def on_step(step: int) -> None:
        if step % cfg.merge_every == 0:
            merge_and_restart(model)

    fit(model, optimizer, make_corpus(cfg, 3, 4096, 3), make_corpus(cfg, 3, 800, 4), cfg.tune_epochs, cfg.batch_size, 6, on_step)


if __name__ == "__main__":
    main()
