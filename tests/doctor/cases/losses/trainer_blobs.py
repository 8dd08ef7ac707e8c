from dataclasses import dataclass

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset, random_split


@dataclass
class Config:
    classes: int = 4
    features: int = 6
    samples: int = 600
    batch_size: int = 40
    max_epochs: int = 3
    lr: float = 3e-3


class Blobs(Dataset):
    def __init__(self, cfg):
        self.y = torch.randint(cfg.classes, (cfg.samples,))
        angle = self.y.float() * 6.283 / cfg.classes
        self.x = torch.randn(cfg.samples, cfg.features)
        self.x[:, 0] += 3 * angle.cos()
        self.x[:, 1] += 3 * angle.sin()

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return {"features": self.x[i], "label": self.y[i]}


def build_model(cfg):
    return nn.Sequential(
        nn.Linear(cfg.features, 32),
        nn.BatchNorm1d(32),
        nn.ReLU(),
        nn.Linear(32, cfg.classes),
        nn.Softmax(dim=-1),
    )


class Trainer:
    def __init__(self, cfg, model, train_set, valid_set):
        self.cfg = cfg
        self.model = model
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=cfg.lr)
        self.loss_fn = nn.CrossEntropyLoss(label_smoothing=0.05)
        self.train_loader = DataLoader(train_set, batch_size=cfg.batch_size, shuffle=True, drop_last=True)
        self.valid_loader = DataLoader(valid_set, batch_size=100)

    def fit(self):
        for epoch in range(self.cfg.max_epochs):
            self.model.train()
            for batch in self.train_loader:
                loss = self.loss_fn(self.model(batch["features"]), batch["label"])
                self.optimizer.zero_grad(set_to_none=True)
                loss.backward()
                self.optimizer.step()
            print(epoch, round(loss.item(), 4), self.validate())

    @torch.no_grad()
    def validate(self):
        self.model.eval()
        hits = sum((self.model(b["features"]).argmax(1) == b["label"]).sum().item() for b in self.valid_loader)
        return hits / len(self.valid_loader.dataset)


torch.manual_seed(0)
cfg = Config()
train_set, valid_set = random_split(Blobs(cfg), [500, 100])
Trainer(cfg, build_model(cfg), train_set, valid_set).fit()
