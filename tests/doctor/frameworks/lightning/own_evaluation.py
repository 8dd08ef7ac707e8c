"""evaluated-in-train-mode: an evaluation of one's own inside a hook, where the model is in train mode."""

import lightning as L
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset


class Classifier(L.LightningModule):
    def __init__(self, held_out):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(8, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.3), nn.Linear(32, 3))
        self.held_out = held_out

    def forward(self, x):
        return self.net(x)

    def training_step(self, batch, _):
        x, y = batch
        return F.cross_entropy(self(x), y)

    def on_train_epoch_end(self):
        self.eval()  # right
        hits = 0
        with torch.no_grad():
            for x, y in self.held_out:
                hits += (self(x).argmax(1) == y).sum().item()  # found
        self.train()  # right
        print(self.current_epoch, hits)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-2)


L.seed_everything(0)
x = torch.randn(160, 8)
y = (x[:, 0] > 0).long() + (x[:, 1] > 0).long()
model = Classifier(DataLoader(TensorDataset(x[96:], y[96:]), batch_size=16))
trainer = L.Trainer(
    max_epochs=3,
    accelerator="cpu",
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
)
trainer.fit(model, DataLoader(TensorDataset(x[:96], y[:96]), batch_size=16, shuffle=True))
