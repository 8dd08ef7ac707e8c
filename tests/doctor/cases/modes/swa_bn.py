import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, update_bn
from torch.utils.data import DataLoader, TensorDataset


def net():
    return nn.Sequential(nn.Linear(6, 24), nn.BatchNorm1d(24), nn.ReLU(), nn.Linear(24, 1))


torch.manual_seed(26)
x = torch.randn(300, 6)
y = x[:, :1] ** 2
train = DataLoader(TensorDataset(x[:240], y[:240]), batch_size=24, shuffle=True)
model = net()
averaged = AveragedModel(model)
opt = torch.optim.Adam(model.parameters(), lr=5e-3)
for epoch in range(4):
    model.train()
    for a, b in train:
        opt.zero_grad()
        nn.functional.mse_loss(model(a), b).backward()
        opt.step()
    if epoch:
        averaged.update_parameters(model)
update_bn(train, averaged)
averaged.eval()
with torch.no_grad():
    print(nn.functional.mse_loss(averaged(x[240:]), y[240:]).item())
