# kind: frameworks
# expect: evaluated-in-train-mode
# why: validate_step only switches gradients off; nothing calls model.eval(), so dropout and batch statistics are active in
#      the validation (and the running statistics take in the validation data).
"""Classify noisy spectra with an Ignite engine, early stopping on the validation loss."""
from __future__ import annotations

import copy
from argparse import ArgumentParser, Namespace

import torch
from ignite.engine import Engine, Events
from ignite.handlers import EarlyStopping
from ignite.metrics import Accuracy, Loss, RunningAverage
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

BINS, SPECIES = 80, 7


def make_spectra(count: int, peaks: Tensor, gen: torch.Generator) -> TensorDataset:
    labels = torch.randint(SPECIES, (count,), generator=gen)
    grid = torch.arange(BINS).float()
    centre = peaks[labels] + torch.randn(count, 3, generator=gen)
    height = 0.6 + torch.rand(count, 3, generator=gen)
    lines = (height[..., None] * torch.exp(-0.5 * ((grid - centre[..., None]) / 2.0) ** 2)).sum(dim=1)
    spectra = lines + 0.35 * torch.randn(count, BINS, generator=gen)
    return TensorDataset((spectra - 0.2) / 0.5, labels)


def build_model(width: int, dropout: float) -> nn.Module:
    return nn.Sequential(
        nn.Unflatten(1, (1, BINS)),
        nn.Conv1d(1, width, 7, padding=3), nn.BatchNorm1d(width), nn.ReLU(), nn.MaxPool1d(2),
        nn.Conv1d(width, width, 5, padding=2), nn.BatchNorm1d(width), nn.ReLU(), nn.MaxPool1d(4),
        nn.Flatten(), nn.Dropout(dropout), nn.Linear(width * BINS // 8, 64), nn.ReLU(),
        nn.Dropout(dropout), nn.Linear(64, SPECIES),
    )


def build_trainer(model: nn.Module, optimizer: torch.optim.Optimizer, criterion: nn.Module) -> Engine:
    def train_step(engine: Engine, batch: tuple[Tensor, Tensor]) -> float:
        model.train()
        x, y = batch
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        return loss.item()

    trainer = Engine(train_step)
    RunningAverage(output_transform=lambda out: out).attach(trainer, "loss")
    return trainer


def build_evaluator(model: nn.Module, criterion: nn.Module) -> Engine:
    def validate_step(engine: Engine, batch: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        x, y = batch
        with torch.no_grad():
            return model(x), y

    evaluator = Engine(validate_step)
    Accuracy().attach(evaluator, "accuracy")
    Loss(criterion).attach(evaluator, "nll")
    return evaluator


class BestKeeper:
    def __init__(self, model: nn.Module) -> None:
        self.model, self.score, self.weights = model, float("inf"), copy.deepcopy(model.state_dict())

    def __call__(self, engine: Engine) -> None:
        nll = engine.state.metrics["nll"]
        if nll < self.score:
            self.score, self.weights = nll, copy.deepcopy(self.model.state_dict())


def run(args: Namespace) -> None:
    torch.manual_seed(args.seed)
    gen = torch.Generator().manual_seed(args.seed)
    peaks = torch.rand(SPECIES, 3, generator=gen) * (BINS - 16) + 8
    train_loader = DataLoader(make_spectra(2560, peaks, gen), batch_size=args.batch_size, shuffle=True)
    valid_loader = DataLoader(make_spectra(640, peaks, gen), batch_size=args.batch_size)

    model = build_model(args.width, args.dropout)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=1e-3)
    trainer = build_trainer(model, optimizer, criterion)
    evaluator = build_evaluator(model, criterion)
    keeper = BestKeeper(model)
    stopper = EarlyStopping(patience=4, score_function=lambda engine: -engine.state.metrics["nll"], trainer=trainer)

    @trainer.on(Events.EPOCH_COMPLETED)
    def report(engine: Engine) -> None:
        evaluator.run(valid_loader)
        shown = evaluator.state.metrics
        print(f"epoch {engine.state.epoch}: train {engine.state.metrics['loss']:.4f} "
              f"valid {shown['nll']:.4f} accuracy {shown['accuracy']:.3f}")

    evaluator.add_event_handler(Events.COMPLETED, keeper)
    evaluator.add_event_handler(Events.COMPLETED, stopper)
    trainer.run(train_loader, max_epochs=args.epochs)
    model.load_state_dict(keeper.weights)
    print(f"best validation loss {keeper.score:.4f}")


if __name__ == "__main__":
    torch.set_num_threads(1)
    parser = ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--width", type=int, default=16)
    parser.add_argument("--dropout", type=float, default=0.25)
    parser.add_argument("--seed", type=int, default=2)
    run(parser.parse_args())
