"""frozen-batchnorm-moves: the weights of the backbone are frozen, its BatchNorm is not."""

import lightning as L
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset


class FineTuned(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU())
        self.backbone.requires_grad_(False)
        self.head = nn.Linear(16, 3)

    def forward(self, x):
        return self.head(self.backbone(x))

    def on_train_epoch_start(self):
        self.backbone.eval()  # right
        print(self.current_epoch)

    def training_step(self, batch, _):
        x, y = batch
        scores = self(x)  # found
        return F.cross_entropy(scores, y)

    def configure_optimizers(self):
        return torch.optim.Adam(self.head.parameters(), lr=1e-2)


L.seed_everything(0)
x = 2 + torch.randn(96, 8)
y = (x[:, 0] > 2).long() + (x[:, 1] > 2).long()
model = FineTuned()
trainer = L.Trainer(
    max_epochs=3,
    accelerator="cpu",
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
)
trainer.fit(model, DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True))
print(model.backbone[1].running_mean.tolist())
