"""softmax-before-cross-entropy: the network ends in a softmax, and training_step uses cross-entropy."""

import lightning as L
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset


class Classifier(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))

    def forward(self, x):
        return F.softmax(self.net(x), dim=1)  # wrong, found
        return self.net(x)  # right

    def training_step(self, batch, _):
        x, y = batch
        return F.cross_entropy(self(x), y)

    def validation_step(self, batch, _):
        x, y = batch
        self.log("accuracy", (self(x).argmax(1) == y).float().mean())

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-2)


L.seed_everything(0)
x = torch.randn(120, 8)
y = (x[:, 0] > 0).long() + (x[:, 1] > 0).long()
model = Classifier()
trainer = L.Trainer(
    max_epochs=3,
    accelerator="cpu",
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
)
trainer.fit(
    model,
    DataLoader(TensorDataset(x[:96], y[:96]), batch_size=16, shuffle=True),
    DataLoader(TensorDataset(x[96:], y[96:]), batch_size=24),
)
print(trainer.callback_metrics, sum(p.double().sum().item() for p in model.parameters()))
