"""missing-zero-grad: manual optimization leaves clearing to the user."""

import lightning as L
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset


class Regressor(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.automatic_optimization = False
        self.net = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1))

    def training_step(self, batch, _):
        x, y = batch
        optimizer = self.optimizers()
        loss = F.mse_loss(self.net(x), y)
        optimizer.zero_grad()  # right
        self.manual_backward(loss)
        optimizer.step()  # found

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


L.seed_everything(0)
x = torch.randn(96, 6)
model = Regressor()
trainer = L.Trainer(
    max_epochs=3,
    accelerator="cpu",
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
)
trainer.fit(model, DataLoader(TensorDataset(x, x[:, :1].sin()), batch_size=16, shuffle=True))
print(sum(p.double().sum().item() for p in model.parameters()))
