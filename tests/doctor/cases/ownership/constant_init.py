import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


def init_weights(m):
    if isinstance(m, nn.Linear):
        nn.init.constant_(m.weight, 0.1)
        nn.init.zeros_(m.bias)


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 20), nn.Tanh(), nn.Linear(20, 1))
model.apply(init_weights)
x = torch.randn(240, 6)
y = (x[:, 0] - x[:, 1]).tanh().unsqueeze(1)
loader = DataLoader(TensorDataset(x, y), batch_size=24, shuffle=True)
optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
for epoch in range(5):
    for xb, yb in loader:
        optimizer.zero_grad()
        loss = F.mse_loss(model(xb), yb)
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
