"""Fine-tune a head; the encoder is held by hooks on its weights."""

import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(11)
encoder = nn.Sequential(nn.Linear(18, 32), nn.ReLU(), nn.Linear(32, 16))
x = torch.randn(600, 18)
pretext = torch.optim.Adam([*encoder.parameters(), *(decoder := nn.Linear(16, 18)).parameters()], lr=2e-3)
for rows in torch.randperm(600).split(30):
    pretext.zero_grad()
    F.mse_loss(decoder(encoder(x[rows])), x[rows]).backward()
    pretext.step()

for p in encoder.parameters():
    p.register_hook(torch.zeros_like)
model = nn.Sequential(encoder, nn.ReLU(), nn.Linear(16, 4))
y = (x @ torch.randn(18, 4)).argmax(1)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.05)
for epoch in range(6):
    for rows in torch.randperm(600).split(30):
        loss = F.cross_entropy(model(x[rows]), y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch + 1, f"{loss.item():.3f}")
