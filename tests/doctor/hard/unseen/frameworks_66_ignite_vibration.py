# kind: frameworks
# expect: nothing
# why: The step functions never set a mode, but handlers do: STARTED of the evaluators calls model.eval() and every training
#      iteration starts with model.train(). One evaluator reads a part of the training data on purpose, the other held-out data.
"""Bearing wear from vibration windows with Ignite: handlers for modes, schedule, reports and the best weights."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from ignite.engine import Engine, Events
from ignite.metrics import MeanAbsoluteError, MeanSquaredError
from torch import Tensor, nn
from torch.utils.data import DataLoader, Subset, TensorDataset

WINDOW = 64


@dataclass
class Config:
    width: int = 24
    batch_size: int = 32
    epochs: int = 7
    max_lr: float = 3e-3
    seed: int = 41


def make_windows(count: int, gen: torch.Generator) -> TensorDataset:
    wear = torch.rand(count, generator=gen)
    t = torch.arange(WINDOW).float()
    phase = torch.rand(count, 1, generator=gen) * 6.28
    hum = torch.sin(0.4 * t + phase)
    rattle = wear[:, None] * torch.sin(1.9 * t + 2 * phase)
    noise = (0.3 + 0.4 * wear[:, None]) * torch.randn(count, WINDOW, generator=gen)
    return TensorDataset((hum + rattle + noise).unsqueeze(1), ((wear - 0.5) / 0.29).unsqueeze(1))


class WearNet(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv1d(1, width, 9, padding=4), nn.BatchNorm1d(width), nn.ReLU(), nn.MaxPool1d(2),
            nn.Conv1d(width, width, 5, padding=2), nn.BatchNorm1d(width), nn.ReLU(), nn.AdaptiveAvgPool1d(4),
        )
        self.head = nn.Sequential(nn.Flatten(), nn.Dropout(0.1), nn.Linear(4 * width, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.features(x))


class Experiment:
    def __init__(self, cfg: Config, steps_per_epoch: int) -> None:
        self.model = WearNet(cfg.width)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=cfg.max_lr / 10, weight_decay=1e-3)
        self.schedule = torch.optim.lr_scheduler.OneCycleLR(
            self.optimizer, max_lr=cfg.max_lr, total_steps=cfg.epochs * steps_per_epoch)
        self.best: dict[str, Tensor] = {}
        self.best_error = float("inf")
        self.trainer = Engine(self.step)
        self.trainer.add_event_handler(Events.ITERATION_STARTED, lambda engine: self.model.train())
        self.trainer.add_event_handler(Events.ITERATION_COMPLETED, lambda engine: self.schedule.step())
        self.on_train = self.make_evaluator()
        self.on_valid = self.make_evaluator()
        self.on_valid.add_event_handler(Events.COMPLETED, self.keep_best)

    def step(self, engine: Engine, batch: Any) -> float:
        x, y = batch
        loss = F.mse_loss(self.model(x), y)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()

    @torch.no_grad()
    def predict(self, engine: Engine, batch: Any) -> tuple[Tensor, Tensor]:
        x, y = batch
        return self.model(x), y

    def make_evaluator(self) -> Engine:
        evaluator = Engine(self.predict)
        evaluator.add_event_handler(Events.STARTED, lambda engine: self.model.eval())
        MeanSquaredError().attach(evaluator, "mse")
        MeanAbsoluteError().attach(evaluator, "mae")
        return evaluator

    def keep_best(self, engine: Engine) -> None:
        error = engine.state.metrics["mse"]
        if error < self.best_error:
            self.best_error = error
            self.best = {name: value.detach().clone() for name, value in self.model.state_dict().items()}

    def restore(self) -> None:
        self.model.load_state_dict(self.best)


def main() -> None:
    torch.set_num_threads(1)
    cfg = Config()
    torch.manual_seed(cfg.seed)
    gen = torch.Generator().manual_seed(cfg.seed)
    train, valid, test = make_windows(2560, gen), make_windows(512, gen), make_windows(512, gen)
    train_loader = DataLoader(train, batch_size=cfg.batch_size, shuffle=True)
    part_loader = DataLoader(Subset(train, range(512)), batch_size=64)
    valid_loader = DataLoader(valid, batch_size=64)
    test_loader = DataLoader(test, batch_size=64)
    experiment = Experiment(cfg, len(train_loader))

    @experiment.trainer.on(Events.EPOCH_COMPLETED)
    def report(engine: Engine) -> None:
        experiment.on_train.run(part_loader)
        experiment.on_valid.run(valid_loader)
        seen, held_out = experiment.on_train.state.metrics, experiment.on_valid.state.metrics
        print(f"epoch {engine.state.epoch}: train part {seen['mse']:.4f} valid {held_out['mse']:.4f} "
              f"mae {held_out['mae']:.4f} lr {experiment.schedule.get_last_lr()[0]:.5f}")

    experiment.trainer.run(train_loader, max_epochs=cfg.epochs)
    experiment.restore()
    tester = experiment.make_evaluator()
    tester.run(test_loader)
    print(f"best valid {experiment.best_error:.4f}, test {tester.state.metrics['mse']:.4f}")


if __name__ == "__main__":
    main()
