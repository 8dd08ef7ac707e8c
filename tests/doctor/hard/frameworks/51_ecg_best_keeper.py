# kind: inside frameworks
# expect: best-weights-aliased
# why: The callback keeps v.detach() of the state dict, which shares storage with the live parameters; what is loaded back
#      at the end of the fit is the last epoch's weights, not the best.
import logging
import warnings

import lightning as L
import torch
import torch.nn.functional as F
from lightning.pytorch.callbacks import Callback
from torch import nn
from torch.utils.data import DataLoader, Subset, TensorDataset

torch.set_num_threads(1)
warnings.filterwarnings("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)

RHYTHMS = ("sinus", "afib", "flutter", "pvc")


def heartbeats(n, seed):
    g = torch.Generator().manual_seed(seed)
    t = torch.linspace(0, 4, 128)
    y = torch.randint(len(RHYTHMS), (n,), generator=g)
    rate = 1.2 + 0.5 * torch.rand(n, 1, generator=g)
    phase = 6.283 * torch.rand(n, 1, generator=g)
    beat = torch.exp(4 * (torch.cos(6.283 * rate * t + phase) - 1))
    wander = torch.cumsum(torch.randn(n, 128, generator=g), 1) * 0.06
    flutter = 0.35 * torch.sin(6.283 * 4.5 * t + phase)
    early = torch.exp(6 * (torch.cos(3.1416 * rate * t + phase + 0.8) - 1))
    x = beat.clone()
    x[y == 1] += wander[y == 1]
    x[y == 2] += flutter.expand(n, -1)[y == 2]
    x[y == 3] -= 0.7 * early[y == 3]
    x = x + 0.35 * torch.randn(n, 128, generator=g)
    return TensorDataset(((x - x.mean(1, keepdim=True)) / x.std(1, keepdim=True)).unsqueeze(1), y)


class RhythmNet(L.LightningModule):
    def __init__(self, lr=3e-3, width=24):
        super().__init__()
        self.lr = lr
        self.conv = nn.Sequential(
            nn.Conv1d(1, width, 9, stride=2, padding=4), nn.BatchNorm1d(width), nn.ReLU(),
            nn.Conv1d(width, width, 7, stride=2, padding=3), nn.BatchNorm1d(width), nn.ReLU(),
            nn.Conv1d(width, 2 * width, 5, stride=2, padding=2), nn.BatchNorm1d(2 * width), nn.ReLU(),
            nn.AdaptiveAvgPool1d(2), nn.Flatten())
        self.fc = nn.Linear(4 * width, len(RHYTHMS))

    def forward(self, x):
        return self.fc(self.conv(x))

    def training_step(self, batch, _):
        x, y = batch
        return F.cross_entropy(self(x), y)

    def validation_step(self, batch, _):
        x, y = batch
        logits = self(x)
        self.log("val_loss", F.cross_entropy(logits, y), batch_size=len(y))
        self.log("val_acc", (logits.argmax(1) == y).float().mean(), batch_size=len(y))

    def test_step(self, batch, _):
        x, y = batch
        self.log("test_loss", F.cross_entropy(self(x), y), batch_size=len(y))

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=self.lr)


class KeepBest(Callback):
    """Remembers the weights of the epoch with the lowest monitored value and puts them back after the fit."""

    def __init__(self, monitor="val_loss"):
        self.monitor, self.best, self.epoch, self.weights = monitor, float("inf"), -1, None

    def on_validation_end(self, trainer, pl_module):
        if trainer.sanity_checking:
            return
        value = trainer.callback_metrics[self.monitor].item()
        acc = trainer.callback_metrics["val_acc"].item()
        print(f"epoch {trainer.current_epoch:2d} {self.monitor} {value:.4f} acc {acc:.3f}")
        if value < self.best:
            self.best, self.epoch = value, trainer.current_epoch
            self.weights = {name: v.detach() for name, v in pl_module.state_dict().items()}

    def on_fit_end(self, trainer, pl_module):
        pl_module.load_state_dict(self.weights)
        print(f"restored epoch {self.epoch} ({self.monitor} {self.best:.4f})")


def main():
    L.seed_everything(62)
    everything = heartbeats(960, 5)
    order = torch.randperm(len(everything), generator=torch.Generator().manual_seed(0)).tolist()
    train, valid, test = (Subset(everything, order[a:b]) for a, b in ((0, 480), (480, 720), (720, 960)))
    model = RhythmNet()
    trainer = L.Trainer(max_epochs=16, accelerator="cpu", devices=1, logger=False, callbacks=[KeepBest()],
                        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
    trainer.fit(model, DataLoader(train, 32, shuffle=True), DataLoader(valid, 120))
    result = trainer.test(model, DataLoader(test, 120), verbose=False)
    print("test loss of the kept weights", round(result[0]["test_loss"], 4))


if __name__ == "__main__":
    main()
