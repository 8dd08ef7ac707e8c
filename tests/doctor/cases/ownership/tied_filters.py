"""A convolutional autoencoder with filters meant to be shared."""

import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(15)


class Auto(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.Conv1d(2, 12, 5, stride=2, padding=2)
        self.up = nn.ConvTranspose1d(12, 2, 5, stride=2, padding=2, output_padding=1)
        self.up.weight.data.copy_(self.down.weight.data)  # tied filters

    def forward(self, x):
        return self.up(F.relu(self.down(x)))


x = torch.randn(400, 2, 32).cumsum(-1) / 4
model = Auto()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for epoch in range(5):
    for rows in torch.randperm(400).split(20):
        loss = F.mse_loss(model(x[rows]), x[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch + 1, f"{loss.item():.4f}")
