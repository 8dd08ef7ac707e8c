# kind: second_phase
# expect: averaged-batchnorm-stale
# why: In the second stage the parameters are averaged, but the averaged copy keeps the batch norm buffers it had when the stage began, and it is evaluated with them.
"""Keyword classifier: warm-up stage, then a constant-rate stage whose weights are averaged."""
import argparse
import copy
import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset


def keywords(n: int, gen: torch.Generator) -> tuple[Tensor, Tensor]:
    """Log-energy like maps: 12 bands over 20 frames, one rising or falling track per word."""
    label = torch.randint(0, 6, (n,), generator=gen)
    frame = torch.arange(20.0).view(1, 1, 20)
    band = torch.arange(12.0).view(1, 12, 1)
    slope = torch.tensor([-0.4, -0.15, 0.0, 0.15, 0.4, 0.0])[label].view(n, 1, 1)
    bend = torch.tensor([0.0, 0.0, 0.02, 0.0, 0.0, -0.03])[label].view(n, 1, 1)
    start = 5.5 + torch.randn(n, 1, 1, generator=gen)
    track = start + slope * (frame - 10) + bend * (frame - 10) ** 2 - bend * 30
    energy = 3 * torch.exp(-0.5 * (band - track) ** 2) + 1.8 * torch.randn(n, 12, 20, generator=gen)
    return energy, label


class KeywordNet(nn.Module):
    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv1d(12, width, 5, padding=2, bias=False), nn.BatchNorm1d(width), nn.ReLU(),
            nn.Conv1d(width, width, 5, stride=2, padding=2, bias=False), nn.BatchNorm1d(width), nn.ReLU(),
            nn.Conv1d(width, 2 * width, 3, stride=2, padding=1, bias=False), nn.BatchNorm1d(2 * width), nn.ReLU(),
        )
        self.head = nn.Sequential(nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Dropout(0.1), nn.Linear(2 * width, 6))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body(x))


class WeightAverage:
    def __init__(self, model: nn.Module) -> None:
        self.model = copy.deepcopy(model).requires_grad_(False)
        self.count = 1

    @torch.no_grad()
    def add(self, model: nn.Module) -> None:
        self.count += 1
        for kept, live in zip(self.model.parameters(), model.parameters(), strict=True):
            kept += (live - kept) / self.count


@torch.no_grad()
def evaluate(model: nn.Module, loader: DataLoader) -> tuple[float, float]:
    model.eval()
    loss, hits, count = 0.0, 0, 0
    for x, y in loader:
        logits = model(x)
        loss += F.cross_entropy(logits, y, reduction="sum").item()
        hits += int((logits.argmax(1) == y).sum())
        count += len(y)
    return loss / count, hits / count


def run_epoch(model: nn.Module, loader: DataLoader, opt: torch.optim.Optimizer) -> float:
    model.train()
    total = 0.0
    for x, y in loader:
        loss = F.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        total += loss.item()
    return total / len(loader)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--warm-epochs", type=int, default=4)
    parser.add_argument("--average-epochs", type=int, default=10)
    parser.add_argument("--lr", type=float, default=0.08)
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(71)
    gen = torch.Generator().manual_seed(71)
    x, y = keywords(3200, gen)
    x = (x - x[:2560].mean()) / x[:2560].std()
    train = DataLoader(TensorDataset(x[:2560], y[:2560]), batch_size=64, shuffle=True)
    valid = DataLoader(TensorDataset(x[2560:], y[2560:]), batch_size=160)

    model = KeywordNet()
    opt = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9, weight_decay=5e-4)
    total = args.warm_epochs + args.average_epochs
    sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda e: 1.0 if e < args.warm_epochs else 0.6)

    for epoch in range(args.warm_epochs):
        loss = run_epoch(model, train, opt)
        sched.step()
        print(f"warm {epoch}: train {loss:.4f} valid %.4f accuracy %.3f" % evaluate(model, valid))

    average = WeightAverage(model)
    best = -math.inf
    for epoch in range(args.warm_epochs, total):
        loss = run_epoch(model, train, opt)
        average.add(model)
        sched.step()
        valid_loss, accuracy = evaluate(average.model, valid)
        best = max(best, accuracy)
        print(f"average {epoch}: train {loss:.4f} valid {valid_loss:.4f} accuracy {accuracy:.3f}")
    print(f"best averaged accuracy {best:.3f}")


if __name__ == "__main__":
    main()
