import torch
from torch import nn


class Config:
    epochs = 12
    batch = 32
    lr = 0.003


class Runner:
    def __init__(self, config):
        self.c = config
        self.model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 16))
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=config.lr)
        self.scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(self.optimizer, mode="max", patience=1, factor=0.5)
        base = torch.randn(4, 16)
        self.train_x = torch.randn(256, 4) @ base
        self.valid_x = torch.randn(64, 4) @ base

    def epoch(self):
        self.model.train()
        for idx in torch.randperm(256).split(self.c.batch):
            x = self.train_x[idx]
            loss = nn.functional.mse_loss(self.model(x), x)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()

    @torch.no_grad()
    def validate(self):
        self.model.eval()
        return nn.functional.mse_loss(self.model(self.valid_x), self.valid_x).item()

    def run(self):
        for epoch in range(self.c.epochs):
            self.epoch()
            val_loss = self.validate()
            self.scheduler.step(val_loss)
            print(epoch, round(val_loss, 4), self.optimizer.param_groups[0]["lr"])


torch.manual_seed(15)
Runner(Config).run()
