import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class LitLike:
    def __init__(self, model, loader, epochs, lr):
        self.model, self.loader, self.epochs = model, loader, epochs
        self.criterion = nn.BCEWithLogitsLoss()
        self.optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
        self.scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, T_max=len(loader) * epochs)

    def training_step(self, batch):
        x, y = batch
        return self.criterion(self.model(x).squeeze(1), y)

    def fit(self):
        for epoch in range(self.epochs):
            losses = []
            for batch in self.loader:
                loss = self.training_step(batch)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                losses.append(loss.item())
            self.scheduler.step()
            print(epoch, sum(losses) / len(losses), self.optimizer.param_groups[0]["lr"])


torch.manual_seed(8)
features = torch.randn(330, 12)
labels = (features[:, 0] * features[:, 1] > 0).float()
trainer = LitLike(
    nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 1)),
    DataLoader(TensorDataset(features, labels), batch_size=15, shuffle=True),
    epochs=6,
    lr=0.05,
)
trainer.fit()
