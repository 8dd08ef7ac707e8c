# kind: inside frameworks
# expect: schedule-wrong-unit
# why: OneCycleLR is built for estimated_stepping_batches steps, but configure_optimizers does not say interval="step",
#      so Lightning advances it once per epoch: the rate stays near its start value and the cycle never happens.
"""Tabular classifier with feature embeddings and a one-cycle schedule (Lightning)."""
import argparse

import lightning as L
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def make_table(rows, generator):
    numeric = torch.randn(rows, 10, generator=generator)
    category = torch.randint(0, 12, (rows, 2), generator=generator)
    effect = torch.sin(category.float() * 1.7).sum(1)
    score = numeric[:, 0] * numeric[:, 1] + numeric[:, 2].abs() - 0.8 + 0.7 * effect
    score = score + 0.2 * torch.randn(rows, generator=generator)
    target = torch.bucketize(score, torch.tensor([-0.8, 0.2, 1.2]))
    return TensorDataset(numeric, category, target)


class TabNet(L.LightningModule):
    def __init__(self, max_lr=1e-2, width=64):
        super().__init__()
        self.save_hyperparameters()
        self.cat = nn.ModuleList([nn.Embedding(12, 6), nn.Embedding(12, 6)])
        self.body = nn.Sequential(
            nn.Linear(10 + 12, width), nn.LayerNorm(width), nn.ReLU(),
            nn.Linear(width, width), nn.LayerNorm(width), nn.ReLU(),
        )
        self.head = nn.Linear(width, 4)

    def forward(self, numeric, category):
        parts = [numeric] + [emb(category[:, i]) for i, emb in enumerate(self.cat)]
        return self.head(self.body(torch.cat(parts, dim=1)))

    def training_step(self, batch, batch_idx):
        numeric, category, y = batch
        loss = F.cross_entropy(self(numeric, category), y)
        self.log("train_loss", loss, on_step=False, on_epoch=True, batch_size=len(y))
        return loss

    def validation_step(self, batch, batch_idx):
        numeric, category, y = batch
        logits = self(numeric, category)
        self.log("val_loss", F.cross_entropy(logits, y), batch_size=len(y))
        self.log("val_acc", (logits.argmax(1) == y).float().mean(), batch_size=len(y))

    def on_train_epoch_end(self):
        m = self.trainer.callback_metrics
        lr = self.trainer.optimizers[0].param_groups[0]["lr"]
        print(f"epoch {self.current_epoch}: train {m['train_loss']:.3f}  val {m['val_loss']:.3f}  "
              f"acc {m['val_acc']:.3f}  lr {lr:.2e}")

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=self.hparams.max_lr / 25, weight_decay=1e-2)
        scheduler = torch.optim.lr_scheduler.OneCycleLR(
            optimizer, max_lr=self.hparams.max_lr,
            total_steps=int(self.trainer.estimated_stepping_batches), pct_start=0.25,
        )
        return {"optimizer": optimizer, "lr_scheduler": scheduler}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--seed", type=int, default=5)
    args = parser.parse_args()

    L.seed_everything(args.seed, verbose=False)
    generator = torch.Generator().manual_seed(args.seed)
    train, valid = make_table(4096, generator), make_table(1024, generator)
    trainer = L.Trainer(
        accelerator="cpu", max_epochs=args.epochs, logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False,
    )
    trainer.fit(
        TabNet(),
        DataLoader(train, batch_size=args.batch_size, shuffle=True),
        DataLoader(valid, batch_size=256),
    )


if __name__ == "__main__":
    main()
