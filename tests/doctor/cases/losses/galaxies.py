import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(40)
x = torch.randn(770, 5)
y = (x[:, 0] + 0.8 * torch.randn(770) > 0).long()
train_dl = DataLoader(TensorDataset(x[:512], y[:512]), batch_size=32, shuffle=True)
valid_dl = DataLoader(TensorDataset(x[512:], y[512:]), batch_size=64)

model = nn.Sequential(nn.Linear(5, 20), nn.ReLU(), nn.Dropout(0.1), nn.Linear(20, 2))
opt = torch.optim.SGD(model.parameters(), lr=0.1)

for epoch in range(3):
    model.train()
    for xb, yb in train_dl:
        loss = F.cross_entropy(model(xb), yb)
        loss.backward()
        opt.step()
        opt.zero_grad()

    model.eval()
    valid_losses = []
    with torch.no_grad():
        for xb, yb in valid_dl:
            valid_losses.append(F.cross_entropy(model(xb), yb).item())
    valid_loss = np.mean(valid_losses)
    print(epoch, valid_loss)
