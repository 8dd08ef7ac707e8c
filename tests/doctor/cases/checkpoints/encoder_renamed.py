"""Pretrain an encoder in an autoencoder, put it into a classifier."""

import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(22)


def make_encoder():
    return nn.Sequential(nn.Linear(20, 40), nn.ReLU(), nn.Linear(40, 10))


class Auto(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = make_encoder(), nn.Linear(10, 20)

    def forward(self, x):
        return self.decoder(self.encoder(x))


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone, self.head = make_encoder(), nn.Linear(10, 3)

    def forward(self, x):
        return self.head(F.relu(self.backbone(x)))


x = torch.randn(600, 20)
y = (x @ torch.randn(20, 3)).argmax(1)
auto = Auto()
optimizer = torch.optim.Adam(auto.parameters(), lr=2e-3)
for _ in range(4):
    for rows in torch.randperm(600).split(30):
        loss = F.mse_loss(auto(x[rows]), x[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

model = Classifier()
own = model.state_dict()
pretrained = {k.replace("encoder.", "backbone."): v for k, v in auto.state_dict().items() if k.startswith("encoder.")}
model.load_state_dict(pretrained, strict=False)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for epoch in range(4):
    for rows in torch.randperm(600).split(30):
        loss = F.cross_entropy(model(x[rows]), y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch + 1, f"{loss.item():.3f}")
