# kind: second_phase
# expect: best-weights-aliased
# why: The best weights are kept as v.detach().cpu(), which on the CPU is the live tensor itself, so putting them back at the end
#      restores the last weights and not the best ones.
"""Glucose 30 minutes ahead from a continuous monitor, with callbacks for logging, the schedule and the best weights."""
import argparse
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset


@dataclass
class Config:
    patients: int = 14
    valid_patients: int = 5
    minutes: int = 360
    history: int = 18
    ahead: int = 6
    hidden: int = 32
    batch: int = 64
    epochs: int = 12
    lr: float = 3e-3
    seed: int = 53


def monitor(cfg: Config, rng: np.random.Generator) -> np.ndarray:
    """One patient, a reading every five minutes: glucose, carbohydrates, insulin."""
    n = cfg.minutes
    carbs, insulin = np.zeros(n), np.zeros(n)
    meals = rng.choice(n, size=n // 50, replace=False)
    carbs[meals] = rng.uniform(20, 80, len(meals))
    late = np.minimum(meals + rng.integers(0, 4, len(meals)), n - 1)
    insulin[late] = carbs[meals] / rng.uniform(8, 14)
    gut, plasma, glucose = 0.0, 0.0, np.full(n, 120.0)
    sensitivity = rng.uniform(1.4, 2.4)
    for i in range(1, n):
        gut = 0.88 * gut + carbs[i]
        plasma = 0.93 * plasma + insulin[i]
        pull = 0.04 * (120 - glucose[i - 1])
        glucose[i] = glucose[i - 1] + pull + 0.13 * gut - 0.45 * sensitivity * plasma * 0.6 + 2.0 * rng.standard_normal()
        glucose[i] = np.clip(glucose[i], 40, 400)
    return np.stack([glucose + 3 * rng.standard_normal(n), carbs, insulin], 1)


def windows(cfg: Config, patients: int, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
    xs, ys = [], []
    for _ in range(patients):
        series = monitor(cfg, rng)
        for start in range(0, len(series) - cfg.history - cfg.ahead, 3):
            stop = start + cfg.history
            xs.append(series[start:stop])
            ys.append(series[stop - 1 + cfg.ahead, :1] - series[stop - 1, :1])
    return torch.tensor(np.stack(xs), dtype=torch.float32), torch.tensor(np.stack(ys), dtype=torch.float32)


class GlucoseNet(nn.Module):
    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.conv = nn.Sequential(nn.Conv1d(3, 32, 3, padding=1), nn.BatchNorm1d(32), nn.ReLU())
        self.rnn = nn.GRU(32, hidden, batch_first=True)
        self.head = nn.Sequential(nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 1))

    def forward(self, x: Tensor) -> Tensor:
        h = self.conv(x.transpose(1, 2)).transpose(1, 2)
        return self.head(self.rnn(h)[0][:, -1])


class Callback:
    def on_epoch_end(self, trainer: "Trainer", epoch: int, metrics: dict[str, float]) -> None: ...

    def on_fit_end(self, trainer: "Trainer") -> None: ...


class Print(Callback):
    def on_epoch_end(self, trainer: "Trainer", epoch: int, metrics: dict[str, float]) -> None:
        print(f"epoch {epoch:2d} " + " ".join(f"{k} {v:.4f}" for k, v in metrics.items()))


class Plateau(Callback):
    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self.scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, mode="min", factor=0.7, patience=4)

    def on_epoch_end(self, trainer: "Trainer", epoch: int, metrics: dict[str, float]) -> None:
        self.scheduler.step(metrics["valid_rmse"])


class KeepBest(Callback):
    def __init__(self) -> None:
        self.score, self.epoch = float("inf"), -1
        self.weights: dict[str, Tensor] = {}

    def on_epoch_end(self, trainer: "Trainer", epoch: int, metrics: dict[str, float]) -> None:
        if metrics["valid_rmse"] < self.score:
            self.score, self.epoch = metrics["valid_rmse"], epoch
            self.weights = {k: v.detach().cpu() for k, v in trainer.model.state_dict().items()}

    def on_fit_end(self, trainer: "Trainer") -> None:
        trainer.model.load_state_dict(self.weights)
        print(f"restored the weights of epoch {self.epoch}")


class Trainer:
    def __init__(self, model: nn.Module, optimizer: torch.optim.Optimizer, callbacks: list[Callback]) -> None:
        self.model, self.optimizer, self.callbacks = model, optimizer, callbacks

    def fit(self, train: DataLoader, valid: DataLoader, epochs: int) -> None:
        for epoch in range(epochs):
            self.model.train()
            squares, seen = 0.0, 0
            for x, y in train:
                self.optimizer.zero_grad()
                loss = F.mse_loss(self.model(x), y)
                loss.backward()
                nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
                self.optimizer.step()
                squares, seen = squares + loss.item() * len(x), seen + len(x)
            metrics = {"train_rmse": (squares / seen) ** 0.5, "valid_rmse": self.evaluate(valid)}
            for callback in self.callbacks:
                callback.on_epoch_end(self, epoch, metrics)
        for callback in self.callbacks:
            callback.on_fit_end(self)

    @torch.no_grad()
    def evaluate(self, loader: DataLoader) -> float:
        self.model.eval()
        errors = torch.cat([self.model(x) - y for x, y in loader])
        return float(errors.pow(2).mean().sqrt())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=Config.epochs)
    cfg = Config(epochs=parser.parse_args().epochs)
    torch.set_num_threads(1)
    torch.manual_seed(cfg.seed)
    rng = np.random.default_rng(cfg.seed)
    (x, y), (vx, vy), (tx, ty) = (windows(cfg, n, rng) for n in (cfg.patients, cfg.valid_patients, cfg.valid_patients))
    mean, std, unit = x.mean((0, 1)), x.std((0, 1)), y.std()
    train = DataLoader(TensorDataset((x - mean) / std, y / unit), batch_size=cfg.batch, shuffle=True)
    valid = DataLoader(TensorDataset((vx - mean) / std, vy / unit), batch_size=128)
    test = DataLoader(TensorDataset((tx - mean) / std, ty / unit), batch_size=128)

    model = GlucoseNet(cfg.hidden)
    optimizer = torch.optim.AdamW(model.parameters(), lr=cfg.lr, weight_decay=1e-4)
    trainer = Trainer(model, optimizer, [Print(), Plateau(optimizer), KeepBest()])
    trainer.fit(train, valid, cfg.epochs)
    print(f"test rmse {trainer.evaluate(test) * float(unit):.2f} mg/dl")


if __name__ == "__main__":
    main()
