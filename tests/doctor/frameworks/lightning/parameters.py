"""parameter-not-optimized: configure_optimizers forgets the encoder."""

import lightning as L
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset


class Tagger(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(8, 16), nn.ReLU())
        self.head = nn.Linear(16, 3)

    def training_step(self, batch, _):
        x, y = batch
        loss = F.cross_entropy(self.head(self.encoder(x)), y)
        self.log("loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.head.parameters(), lr=0.1)  # wrong, found
        return torch.optim.SGD(self.parameters(), lr=0.1)  # right


L.seed_everything(0)
x = torch.randn(96, 8)
y = (x[:, 0] > 0).long() + (x[:, 1] > 0).long()
model = Tagger()
trainer = L.Trainer(
    max_epochs=3,
    accelerator="cpu",
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
)
trainer.fit(model, DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True))
print(sum(p.double().sum().item() for p in model.parameters()))
