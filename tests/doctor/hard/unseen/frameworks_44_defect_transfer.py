# kind: inside frameworks
# expect: frozen-batchnorm-moves
# why: The pretrained encoder's parameters are frozen with requires_grad=False and it is called under no_grad, but it
#      stays in train mode inside the LightningModule, so its BatchNorm statistics drift to the new data.
import logging
import warnings

import lightning as L
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
warnings.filterwarnings("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


def surface_images(n, classes, seed, contrast=1.0, offset=0.0):
    """Stripes (class = orientation) on noise; `contrast` and `offset` imitate another camera."""
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(classes, (n,), generator=g)
    a = torch.arange(16.0)
    yy, xx = torch.meshgrid(a, a, indexing="ij")
    angle = 3.1416 * y.float() / classes
    phase = 6.283 * torch.rand(n, generator=g)
    wave = torch.sin(0.9 * (angle.cos()[:, None, None] * xx + angle.sin()[:, None, None] * yy) + phase[:, None, None])
    img = wave + 0.8 * torch.randn(n, 16, 16, generator=g)
    img = (img - img.mean()) / img.std()
    return TensorDataset((contrast * img + offset).unsqueeze(1), y)


def make_encoder():
    layers, cin = [], 1
    for cout in (12, 24, 32):
        layers += [nn.Conv2d(cin, cout, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(cout), nn.ReLU()]
        cin = cout
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())


class Classifier(L.LightningModule):
    def __init__(self, encoder, classes, lr):
        super().__init__()
        self.encoder, self.lr = encoder, lr
        self.head = nn.Linear(32, classes)

    def features(self, x):
        return self.encoder(x)

    def forward(self, x):
        return self.head(self.features(x))

    def training_step(self, batch, batch_idx):
        x, y = batch
        return F.cross_entropy(self(x), y)

    def validation_step(self, batch, batch_idx):
        x, y = batch
        self.log("val_acc", (self(x).argmax(1) == y).float().mean(), batch_size=len(y))

    def on_validation_epoch_end(self):
        if not self.trainer.sanity_checking:
            acc = self.trainer.callback_metrics["val_acc"].item()
            print(f"{type(self).__name__} epoch {self.current_epoch} val acc {acc:.3f}")

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=self.lr)


class FineTuned(Classifier):
    def __init__(self, encoder, classes, lr):
        super().__init__(encoder, classes, lr)
        for p in self.encoder.parameters():
            p.requires_grad = False
        self.head = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, classes))

    def features(self, x):
        with torch.no_grad():
            return self.encoder(x)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.head.parameters(), lr=self.lr)


def fit(module, train, valid, epochs):
    trainer = L.Trainer(max_epochs=epochs, accelerator="cpu", devices=1, logger=False, enable_checkpointing=False,
                        enable_progress_bar=False, enable_model_summary=False)
    trainer.fit(module, DataLoader(train, 32, shuffle=True, drop_last=True), DataLoader(valid, 100))


def main():
    L.seed_everything(14)
    source = Classifier(make_encoder(), classes=8, lr=3e-3)
    fit(source, surface_images(1600, 8, 1), surface_images(400, 8, 2), epochs=3)

    target = FineTuned(source.encoder, classes=5, lr=3e-3)
    train = surface_images(1280, 5, 3, contrast=0.8, offset=0.4)
    valid = surface_images(300, 5, 4, contrast=0.8, offset=0.4)
    fit(target, train, valid, epochs=6)


if __name__ == "__main__":
    main()
