"""schedule-wrong-unit: a schedule counted in updates, which Lightning steps once an epoch unless told otherwise."""

import lightning as L
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset


class Scheduled(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))

    def training_step(self, batch, _):
        x, y = batch
        return F.cross_entropy(self.net(x), y)

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=1e-3)
        steps = self.trainer.estimated_stepping_batches
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, total_steps=steps)  # found
        return [optimizer], [schedule]  # wrong
        return [optimizer], [{"scheduler": schedule, "interval": "step"}]  # right


L.seed_everything(0)
x = torch.randn(160, 8)
y = (x[:, 0] > 0).long() + (x[:, 1] > 0).long()
model = Scheduled()
trainer = L.Trainer(
    max_epochs=4,
    accelerator="cpu",
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
)
trainer.fit(model, DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True))
print(trainer.optimizers[0].param_groups[0]["lr"])
