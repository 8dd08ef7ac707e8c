# kind: inside frameworks
# expect: nothing
# like: leaf-written-in-place
# why: the callback puts the averaged weights into the model for validation and puts the trained ones back afterwards;
#      parameters are written outside of the optimizer on purpose and restored exactly (GroupNorm, so no statistics).
"""1-D signal classifier in Lightning, validated with exponentially averaged weights."""
import argparse

import lightning as L
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def make_signals(count, generator, length=96):
    t = torch.linspace(0, 1, length)
    label = torch.randint(0, 4, (count,), generator=generator)
    freq = 3.0 + 2.0 * label.float() + 0.6 * torch.randn(count, generator=generator)
    phase = 6.28 * torch.rand(count, generator=generator)
    wave = torch.sin(6.28 * freq[:, None] * t + phase[:, None])
    wave = wave + 0.8 * torch.randn(count, length, generator=generator)
    return TensorDataset(wave.unsqueeze(1), label)


class EmaValidation(L.Callback):
    def __init__(self, decay=0.98):
        self.decay = decay
        self.average = None
        self.trained = None

    def on_fit_start(self, trainer, module):
        self.average = [p.detach().clone() for p in module.parameters()]

    @torch.no_grad()
    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        decay = min(self.decay, (1 + trainer.global_step) / (10 + trainer.global_step))
        for a, p in zip(self.average, module.parameters()):
            a.lerp_(p.detach(), 1 - decay)

    @torch.no_grad()
    def on_validation_start(self, trainer, module):
        self.trained = [p.detach().clone() for p in module.parameters()]
        for p, a in zip(module.parameters(), self.average):
            p.copy_(a)

    @torch.no_grad()
    def on_validation_end(self, trainer, module):
        for p, w in zip(module.parameters(), self.trained):
            p.copy_(w)
        self.trained = None


class SignalNet(L.LightningModule):
    def __init__(self, lr=3e-3):
        super().__init__()
        self.save_hyperparameters()
        self.features = nn.Sequential(
            nn.Conv1d(1, 16, 7, stride=2, padding=3), nn.GroupNorm(4, 16), nn.ReLU(),
            nn.Conv1d(16, 32, 5, stride=2, padding=2), nn.GroupNorm(4, 32), nn.ReLU(),
            nn.Conv1d(32, 32, 3, padding=1), nn.GroupNorm(4, 32), nn.ReLU(),
        )
        self.head = nn.Linear(32, 4)

    def forward(self, x):
        return self.head(self.features(x).mean(-1))

    def training_step(self, batch, batch_idx):
        x, y = batch
        loss = F.cross_entropy(self(x), y)
        self.log("train_loss", loss, on_step=False, on_epoch=True, batch_size=len(y))
        return loss

    def validation_step(self, batch, batch_idx):
        x, y = batch
        logits = self(x)
        self.log("val_loss", F.cross_entropy(logits, y), batch_size=len(y))
        self.log("val_acc", (logits.argmax(1) == y).float().mean(), batch_size=len(y))

    def on_train_epoch_end(self):
        m = self.trainer.callback_metrics
        print(f"epoch {self.current_epoch}: train {m['train_loss']:.3f}  "
              f"ema valid {m['val_loss']:.3f}  ema acc {m['val_acc']:.3f}")

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=self.hparams.lr)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=7)
    args = parser.parse_args()
    L.seed_everything(21, verbose=False)
    generator = torch.Generator().manual_seed(21)
    train, valid = make_signals(3072, generator), make_signals(768, generator)
    trainer = L.Trainer(
        accelerator="cpu", max_epochs=args.epochs, callbacks=[EmaValidation()], num_sanity_val_steps=0, logger=False,
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
    )
    trainer.fit(SignalNet(), DataLoader(train, batch_size=64, shuffle=True), DataLoader(valid, batch_size=256))


if __name__ == "__main__":
    main()
