# kind: frameworks
# expect: trained-in-eval-mode
# why: accuracy() calls model.eval() before the second fit; Lightning keeps the modes it finds, so the whole adaptation
#      trains with dropout off and BatchNorm on the first device's running statistics.
"""Gesture recognition: train on the old wristband, adapt to the new one with fewer recordings."""
from __future__ import annotations

import warnings

import lightning as L
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

warnings.filterwarnings("ignore", ".*does not have many workers.*")
CLASSES, CHANNELS, LENGTH = 6, 3, 48


def record(count: int, templates: Tensor, gain: Tensor, offset: Tensor, gen: torch.Generator) -> TensorDataset:
    labels = torch.randint(CLASSES, (count,), generator=gen)
    clean = templates[labels]
    shift = torch.randint(-4, 5, (count,), generator=gen)
    moved = torch.stack([torch.roll(c, int(s), dims=-1) for c, s in zip(clean, shift)])
    noise = 1.2 * torch.randn(moved.shape, generator=gen)
    return TensorDataset((moved + noise) * gain[:, None] + offset[:, None], labels)


class GestureNet(nn.Module):
    def __init__(self, width: int = 32, dropout: float = 0.3) -> None:
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv1d(CHANNELS, width, 5, padding=2), nn.BatchNorm1d(width), nn.ReLU(), nn.MaxPool1d(2),
            nn.Conv1d(width, width, 5, padding=2), nn.BatchNorm1d(width), nn.ReLU(), nn.AdaptiveAvgPool1d(4),
            nn.Flatten(),
        )
        self.head = nn.Sequential(nn.Dropout(dropout), nn.Linear(width * 4, 64), nn.ReLU(), nn.Dropout(dropout),
                                  nn.Linear(64, CLASSES))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.encoder(x))


class GestureModule(L.LightningModule):
    def __init__(self, lr: float) -> None:
        super().__init__()
        self.net = GestureNet()
        self.lr = lr

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x)

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        x, y = batch
        loss = F.cross_entropy(self(x), y)
        self.log("train_loss", loss, on_step=False, on_epoch=True)
        return loss

    def validation_step(self, batch: list[Tensor], batch_idx: int) -> None:
        x, y = batch
        logits = self(x)
        self.log("val_loss", F.cross_entropy(logits, y), batch_size=len(y))
        self.log("val_acc", (logits.argmax(dim=1) == y).float().mean(), batch_size=len(y))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=self.lr, weight_decay=1e-3)


class PrintMetrics(L.Callback):
    def __init__(self, name: str) -> None:
        self.name = name

    def on_train_epoch_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        shown = ", ".join(f"{k} {float(v):.3f}" for k, v in sorted(trainer.callback_metrics.items()))
        print(f"[{self.name}] epoch {trainer.current_epoch}: {shown}")


def accuracy(model: GestureModule, loader: DataLoader) -> float:
    model.eval()
    right = total = 0
    with torch.no_grad():
        for x, y in loader:
            right += int((model(x).argmax(dim=1) == y).sum())
            total += len(y)
    return right / total


def fit(model: GestureModule, name: str, epochs: int, train: DataLoader, valid: DataLoader) -> None:
    trainer = L.Trainer(max_epochs=epochs, accelerator="cpu", devices=1, logger=False, enable_checkpointing=False,
                        enable_progress_bar=False, enable_model_summary=False, num_sanity_val_steps=0,
                        callbacks=[PrintMetrics(name)])
    trainer.fit(model, train, valid)


def main() -> None:
    torch.set_num_threads(1)
    L.seed_everything(11)
    gen = torch.Generator().manual_seed(11)
    templates = torch.randn(CLASSES, CHANNELS, LENGTH, generator=gen)
    templates = F.avg_pool1d(templates, 5, stride=1, padding=2) * 2
    old = (torch.ones(CHANNELS), torch.zeros(CHANNELS))
    new = (torch.tensor([0.7, 1.3, 1.0]), torch.tensor([0.4, -0.3, 0.2]))

    old_train = DataLoader(record(1920, templates, *old, gen), 32, shuffle=True)
    old_valid = DataLoader(record(512, templates, *old, gen), 64)
    new_train = DataLoader(record(1280, templates, *new, gen), 32, shuffle=True)
    new_valid = DataLoader(record(512, templates, *new, gen), 64)

    model = GestureModule(lr=1e-3)
    fit(model, "old band", 4, old_train, old_valid)
    print(f"new band before adaptation: {accuracy(model, new_valid):.3f}")

    model.lr = 3e-4
    fit(model, "new band", 6, new_train, new_valid)
    print(f"new band after adaptation:  {accuracy(model, new_valid):.3f}")
    print(f"old band after adaptation:  {accuracy(model, old_valid):.3f}")


if __name__ == "__main__":
    main()
