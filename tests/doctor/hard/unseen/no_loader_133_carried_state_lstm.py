# kind: no_loader
# expect: nothing
# why: Truncated backpropagation through time: windows follow each other in order because the detached state is carried from one to the next; every epoch cuts the log anew at a random offset and starts from zero states.
"""Event-log model: stateful LSTM over parallel streams, truncated backpropagation through time."""
from __future__ import annotations

import argparse
from collections.abc import Iterator

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

State = tuple[Tensor, Tensor]


def machine_log(n: int, rng: np.random.Generator) -> Tensor:
    """Symbols of a machine with nested cycles; a mode symbol decides what follows for a long time."""
    out: list[int] = []
    while len(out) < n:
        mode = int(rng.integers(0, 4))
        out.append(mode)
        for _ in range(int(rng.integers(6, 14))):
            base = 4 + 4 * mode
            out.extend([base, base + 1] if rng.random() < 0.7 else [base + 2, base + 3, base + 2])
            if rng.random() < 0.15:
                out.append(20 + int(rng.integers(0, 4)))
    return torch.tensor(out[:n])


def cut(log: Tensor, streams: int, offset: int) -> Tensor:
    """Parallel streams: one row each, in their own order of time."""
    length = (len(log) - offset) // streams
    return log[offset:offset + streams * length].view(streams, length)


def windows(rows: Tensor, size: int) -> Iterator[tuple[Tensor, Tensor]]:
    for start in range(0, rows.shape[1] - 1, size):
        stop = min(start + size, rows.shape[1] - 1)
        yield rows[:, start:stop], rows[:, start + 1:stop + 1]


class LogModel(nn.Module):
    def __init__(self, symbols: int, dim: int, hidden: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(symbols, dim)
        self.lstm = nn.LSTM(dim, hidden, num_layers=2, dropout=0.1, batch_first=True)
        self.out = nn.Linear(hidden, symbols)

    def forward(self, x: Tensor, state: State | None) -> tuple[Tensor, State]:
        h, state = self.lstm(self.embed(x), state)
        return self.out(h), state


def detach(state: State) -> State:
    return state[0].detach(), state[1].detach()


class Trainer:
    def __init__(self, model: LogModel, lr: float, window: int, epochs: int) -> None:
        self.model, self.window = model, window
        self.opt = torch.optim.Adam(model.parameters(), lr=lr)
        self.sched = torch.optim.lr_scheduler.MultiStepLR(self.opt, milestones=[epochs // 2, (3 * epochs) // 4], gamma=0.3)

    def epoch(self, rows: Tensor) -> float:
        self.model.train()
        state: State | None = None
        total, count = 0.0, 0
        for x, y in windows(rows, self.window):
            logits, state = self.model(x, state)
            state = detach(state)
            loss = F.cross_entropy(logits.transpose(1, 2), y)
            self.opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.opt.step()
            total += loss.item() * y.numel()
            count += y.numel()
        self.sched.step()
        return total / count

    @torch.no_grad()
    def validate(self, rows: Tensor) -> tuple[float, float]:
        self.model.eval()
        state: State | None = None
        total, hits, count = 0.0, 0, 0
        for x, y in windows(rows, self.window):
            logits, state = self.model(x, state)
            total += F.cross_entropy(logits.transpose(1, 2), y, reduction="sum").item()
            hits += int((logits.argmax(-1) == y).sum())
            count += y.numel()
        return total / count, hits / count


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--window", type=int, default=32)
    parser.add_argument("--streams", type=int, default=16)
    parser.add_argument("--lr", type=float, default=4e-3)
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(17)
    rng = np.random.default_rng(17)
    train_log, valid_log = machine_log(26_000, rng), machine_log(5_000, rng)
    valid_rows = cut(valid_log, 8, 0)
    trainer = Trainer(LogModel(24, 24, 64), args.lr, args.window, args.epochs)
    for epoch in range(args.epochs):
        rows = cut(train_log, args.streams, int(rng.integers(0, 600)))
        rows = rows[torch.randperm(args.streams)]
        train_loss = trainer.epoch(rows)
        valid_loss, accuracy = trainer.validate(valid_rows)
        print(f"epoch {epoch} train {train_loss:.4f} valid {valid_loss:.4f} next-symbol accuracy {accuracy:.3f}")


if __name__ == "__main__":
    main()
