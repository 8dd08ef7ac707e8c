# kind: inside frameworks
# expect: schedule-wrong-unit
# why: CosineAnnealingLR is planned over trainer.estimated_stepping_batches, but the dict given to Lightning has no
#      interval="step", so it is stepped once per epoch and the learning rate hardly moves.
import argparse
import logging
import warnings

import lightning as L
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)
warnings.filterwarnings("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)

CONTEXT, HORIZON = 72, 12


class Windows(Dataset):
    def __init__(self, series, stride):
        self.series = torch.from_numpy(series)
        span = series.shape[1] - CONTEXT - HORIZON
        self.index = [(h, t) for h in range(series.shape[0]) for t in range(0, span + 1, stride)]

    def __len__(self):
        return len(self.index)

    def __getitem__(self, i):
        house, t = self.index[i]
        cut = self.series[house, t:t + CONTEXT + HORIZON]
        return cut[:CONTEXT].unsqueeze(0), cut[CONTEXT:]


class LoadData(L.LightningDataModule):
    def __init__(self, houses, hours, batch_size):
        super().__init__()
        self.save_hyperparameters()

    def setup(self, stage):
        rng = np.random.default_rng(11)
        hp = self.hparams
        t = np.arange(hp.hours)[None]
        phase = rng.uniform(0, 6.28, (hp.houses, 1))
        load = (1.5 * np.sin(2 * np.pi * t / 24 + phase) + 0.7 * np.sin(2 * np.pi * t / 12 + 2 * phase)
                + 0.6 * np.cos(2 * np.pi * t / 168) + 0.2 * rng.standard_normal((hp.houses, hp.hours)))
        cut = int(hp.hours * 0.8)
        mean, std = load[:, :cut].mean(1, keepdims=True), load[:, :cut].std(1, keepdims=True)
        load = ((load - mean) / std).astype("float32")
        self.train_set = Windows(load[:, :cut], stride=3)
        self.valid_set = Windows(load[:, cut:], stride=6)

    def train_dataloader(self):
        return DataLoader(self.train_set, self.hparams.batch_size, shuffle=True, drop_last=True)

    def val_dataloader(self):
        return DataLoader(self.valid_set, 128)


class CausalBlock(nn.Module):
    def __init__(self, cin, cout, dilation):
        super().__init__()
        self.pad = 2 * dilation
        self.conv = nn.Conv1d(cin, cout, 3, dilation=dilation)
        self.skip = nn.Conv1d(cin, cout, 1)

    def forward(self, x):
        return F.gelu(self.conv(F.pad(x, (self.pad, 0)))) + self.skip(x)


class Forecaster(L.LightningModule):
    def __init__(self, width, lr, weight_decay):
        super().__init__()
        self.save_hyperparameters()
        sizes = [1, width, width, width, width]
        self.tcn = nn.Sequential(*[CausalBlock(a, b, 2 ** i) for i, (a, b) in enumerate(zip(sizes, sizes[1:]))])
        self.out = nn.Linear(width, HORIZON)

    def forward(self, x):
        return self.out(self.tcn(x)[..., -1])

    def training_step(self, batch, batch_idx):
        x, y = batch
        loss = F.smooth_l1_loss(self(x), y)
        self.log("train_loss", loss, on_step=False, on_epoch=True)
        return loss

    def validation_step(self, batch, batch_idx):
        x, y = batch
        self.log("val_mae", F.l1_loss(self(x), y), batch_size=len(x))

    def on_validation_epoch_end(self):
        if not self.trainer.sanity_checking:
            print(f"epoch {self.current_epoch} val mae {self.trainer.callback_metrics['val_mae']:.4f}")

    def configure_optimizers(self):
        hp = self.hparams
        optimizer = torch.optim.AdamW(self.parameters(), lr=hp.lr, weight_decay=hp.weight_decay)
        cosine = torch.optim.lr_scheduler.CosineAnnealingLR(
            optimizer, T_max=self.trainer.estimated_stepping_batches, eta_min=hp.lr * 0.01)
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": cosine, "name": "lr/cosine", "monitor": "val_mae"},
        }


def main():
    cli = argparse.ArgumentParser()
    cli.add_argument("--epochs", type=int, default=8)
    cli.add_argument("--batch-size", type=int, default=64)
    cli.add_argument("--width", type=int, default=24)
    cli.add_argument("--lr", type=float, default=2e-3)
    cli.add_argument("--weight-decay", type=float, default=1e-4)
    args = cli.parse_args()
    L.seed_everything(3)
    trainer = L.Trainer(max_epochs=args.epochs, accelerator="cpu", devices=1, logger=False, gradient_clip_val=1.0,
                        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
    data = LoadData(houses=10, hours=24 * 42, batch_size=args.batch_size)
    trainer.fit(Forecaster(args.width, args.lr, args.weight_decay), datamodule=data)


if __name__ == "__main__":
    main()
