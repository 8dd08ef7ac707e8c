import torch
from torch import nn
from torch.optim.swa_utils import SWALR, AveragedModel
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(24)
x = torch.randn(300, 6) + 1.5
y = (x[:, 0] > x[:, 1]).long()
loader = DataLoader(TensorDataset(x[:240], y[:240]), batch_size=24, shuffle=True)
test = DataLoader(TensorDataset(x[240:], y[240:]), batch_size=30)
model = nn.Sequential(nn.Linear(6, 24), nn.BatchNorm1d(24), nn.ReLU(), nn.Linear(24, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
swa_model = AveragedModel(model)
swa_scheduler = SWALR(optimizer, swa_lr=0.05, anneal_epochs=2)
for epoch in range(6):
    model.train()
    for a, b in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(a), b).backward()
        optimizer.step()
    if epoch >= 2:
        swa_model.update_parameters(model)
        swa_scheduler.step()
swa_model.eval()
with torch.no_grad():
    print(sum((swa_model(a).argmax(1) == b).sum().item() for a, b in test) / 60)
