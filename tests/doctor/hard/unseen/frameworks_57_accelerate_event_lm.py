# kind: frameworks
# expect: clip-of-partial-cycle
# why: accelerator.clip_grad_norm_ runs after the backward of every micro batch, not only when accelerator.sync_gradients
#      is true, so the gradients are clipped four times while they are still being accumulated.
"""Next-event model for machine logs, trained with Accelerate and gradient accumulation."""
from __future__ import annotations

import argparse
import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset


@dataclass
class Config:
    vocab: int = 32
    length: int = 25
    width: int = 48
    micro_batch: int = 8
    accumulate: int = 4
    epochs: int = 3
    lr: float = 4e-3
    max_norm: float = 0.1
    warmup: int = 20
    seed: int = 3


def simulate_logs(count: int, cfg: Config, table: Tensor, gen: torch.Generator) -> Tensor:
    events = torch.zeros(count, cfg.length, dtype=torch.long)
    events[:, 0] = torch.randint(cfg.vocab, (count,), generator=gen)
    events[:, 1] = torch.randint(cfg.vocab, (count,), generator=gen)
    for t in range(2, cfg.length):
        state = (events[:, t - 1] + 3 * events[:, t - 2]) % cfg.vocab
        events[:, t] = torch.multinomial(table[state], 1, generator=gen).squeeze(1)
    return events


class EventModel(nn.Module):
    def __init__(self, cfg: Config) -> None:
        super().__init__()
        self.embed = nn.Embedding(cfg.vocab, cfg.width)
        self.rnn = nn.GRU(cfg.width, cfg.width, batch_first=True)
        self.drop = nn.Dropout(0.1)
        self.out = nn.Linear(cfg.width, cfg.vocab)

    def forward(self, events: Tensor) -> Tensor:
        hidden, _ = self.rnn(self.embed(events))
        return self.out(self.drop(hidden))


def next_event_loss(model: nn.Module, events: Tensor) -> Tensor:
    logits = model(events[:, :-1])
    return F.cross_entropy(logits.flatten(0, 1), events[:, 1:].flatten())


def warmup_cosine(optimizer: torch.optim.Optimizer, warmup: int, total: int) -> torch.optim.lr_scheduler.LambdaLR:
    def factor(step: int) -> float:
        if step < warmup:
            return (step + 1) / warmup
        return 0.5 * (1 + math.cos(math.pi * min(1.0, (step - warmup) / max(1, total - warmup))))

    return torch.optim.lr_scheduler.LambdaLR(optimizer, factor)


@torch.no_grad()
def evaluate(accelerator: Accelerator, model: nn.Module, loader: DataLoader) -> float:
    model.eval()
    total, count = 0.0, 0
    for (events,) in loader:
        losses = accelerator.gather_for_metrics(next_event_loss(model, events).repeat(len(events)))
        total += losses.sum().item()
        count += losses.numel()
    model.train()
    return total / count


def train(cfg: Config) -> None:
    set_seed(cfg.seed)
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=cfg.accumulate)
    gen = torch.Generator().manual_seed(cfg.seed)
    table = torch.softmax(2.5 * torch.randn(cfg.vocab, cfg.vocab, generator=gen), dim=1)
    train_set = TensorDataset(simulate_logs(2560, cfg, table, gen))
    valid_set = TensorDataset(simulate_logs(512, cfg, table, gen))
    train_loader = DataLoader(train_set, batch_size=cfg.micro_batch, shuffle=True, drop_last=True)
    valid_loader = DataLoader(valid_set, batch_size=64)

    model = EventModel(cfg)
    optimizer = torch.optim.AdamW(model.parameters(), lr=cfg.lr, weight_decay=0.01)
    updates = cfg.epochs * len(train_loader) // cfg.accumulate
    scheduler = warmup_cosine(optimizer, cfg.warmup, updates)
    model, optimizer, train_loader, valid_loader, scheduler = accelerator.prepare(
        model, optimizer, train_loader, valid_loader, scheduler)

    for epoch in range(cfg.epochs):
        model.train()
        running, seen = 0.0, 0
        for (events,) in train_loader:
            with accelerator.accumulate(model):
                loss = next_event_loss(model, events)
                accelerator.backward(loss)
                accelerator.clip_grad_norm_(model.parameters(), cfg.max_norm)
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()
            running += loss.item()
            seen += 1
        valid = evaluate(accelerator, model, valid_loader)
        accelerator.print(f"epoch {epoch}: train {running / seen:.4f} valid {valid:.4f} lr {scheduler.get_last_lr()[0]:.5f}")


if __name__ == "__main__":
    torch.set_num_threads(1)
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--accumulate", type=int, default=4)
    options = parser.parse_args()
    train(Config(epochs=options.epochs, accumulate=options.accumulate))
