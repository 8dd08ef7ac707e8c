"""loss-broadcast: predictions (n, 1) against targets (n,)."""

import lightning as L
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Prices(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 1))

    def training_step(self, batch, _):
        x, y = batch
        loss = ((self.net(x) - y) ** 2).mean()  # wrong, found
        loss = ((self.net(x).squeeze(1) - y) ** 2).mean()  # right
        self.log("loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-2)


L.seed_everything(0)
x = torch.randn(96, 6)
model = Prices()
trainer = L.Trainer(
    max_epochs=3,
    accelerator="cpu",
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
)
trainer.fit(model, DataLoader(TensorDataset(x, x.sum(1)), batch_size=16, shuffle=True))
print(sum(p.double().sum().item() for p in model.parameters()))
