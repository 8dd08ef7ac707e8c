# kind: inside frameworks
# expect: clip-of-partial-cycle
# why: clip_grad_norm_ runs on every micro-batch, not only when accelerator.sync_gradients is true, so partial sums are
#      clipped again and again and the early micro-batches of a cycle lose weight.
"""Electric load forecasting with a GRU, gradient accumulation through Accelerate."""
import argparse

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
SPLIT = 3561  # 3520 training windows: 160 micro-batches of 22


def load_curve(hours, generator):
    t = torch.arange(hours, dtype=torch.float)
    daily = torch.sin(2 * torch.pi * t / 24) + 0.5 * torch.sin(4 * torch.pi * t / 24 + 0.8)
    weekly = 0.6 * torch.sin(2 * torch.pi * t / 168)
    noise = torch.zeros(hours)
    shocks = 0.25 * torch.randn(hours, generator=generator)
    for i in range(1, hours):
        noise[i] = 0.8 * noise[i - 1] + shocks[i]
    return daily + weekly + noise


def to_windows(series, past, future):
    w = series.unfold(0, past + future, 1)
    return TensorDataset(w[:, :past].unsqueeze(-1).contiguous(), w[:, past:].contiguous())


class Forecaster(nn.Module):
    def __init__(self, hidden=48, horizon=6):
        super().__init__()
        self.rnn = nn.GRU(1, hidden, batch_first=True)
        self.head = nn.Sequential(nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, horizon))

    def forward(self, x):
        _, last = self.rnn(x)
        return self.head(last[-1])


@torch.no_grad()
def validate(model, loader, accelerator):
    model.eval()
    errors = []
    for x, y in loader:
        errors.append(accelerator.gather_for_metrics((model(x) - y).pow(2)))
    return torch.cat(errors).mean().sqrt().item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--accumulate", type=int, default=4)
    parser.add_argument("--max-norm", type=float, default=0.08)
    parser.add_argument("--lr", type=float, default=0.2)
    args = parser.parse_args()

    set_seed(8)
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=args.accumulate)
    series = load_curve(4400, torch.Generator().manual_seed(8))
    mean, std = series[:SPLIT].mean(), series[:SPLIT].std()
    series = (series - mean) / std
    train, valid = to_windows(series[:SPLIT], 36, 6), to_windows(series[SPLIT:], 36, 6)

    model = Forecaster()
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9, nesterov=True)
    train_loader = DataLoader(train, batch_size=22, shuffle=True, drop_last=True)
    updates = args.epochs * (len(train_loader) // args.accumulate)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=updates)
    model, optimizer, train_loader, valid_loader, scheduler = accelerator.prepare(
        model, optimizer, train_loader, DataLoader(valid, batch_size=128), scheduler
    )

    for epoch in range(args.epochs):
        model.train()
        total = seen = 0.0
        for x, y in train_loader:
            with accelerator.accumulate(model):
                loss = F.smooth_l1_loss(model(x), y)
                accelerator.backward(loss)
                accelerator.clip_grad_norm_(model.parameters(), args.max_norm)
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()
            total += loss.item() * len(x)
            seen += len(x)
        rmse = validate(model, valid_loader, accelerator)
        accelerator.print(f"epoch {epoch}: train {total / seen:.4f}  valid rmse {rmse:.4f}  "
                          f"lr {scheduler.get_last_lr()[0]:.4f}")


if __name__ == "__main__":
    main()
