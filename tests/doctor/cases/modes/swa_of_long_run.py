# after a long run the statistics of the live network are computed again, and those of the average are used
import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, update_bn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(10)
x = torch.randn(480, 6) + 1.5
y = (x[:, 0] > x[:, 1]).long()
loader = DataLoader(TensorDataset(x[:400], y[:400]), batch_size=20, shuffle=True)
test = DataLoader(TensorDataset(x[400:], y[400:]), batch_size=40)
model = nn.Sequential(nn.Linear(6, 24), nn.BatchNorm1d(24), nn.ReLU(), nn.Linear(24, 2))
average = AveragedModel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


@torch.no_grad()
def accuracy(net):
    net.eval()
    return sum((net(a).argmax(1) == b).sum().item() for a, b in test) / 80


for epoch in range(16):
    model.train()
    for a, b in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(a), b).backward()
        optimizer.step()
    if epoch >= 8:
        average.update_parameters(model)
    print(epoch, accuracy(model))
update_bn(loader, model)
print("average", accuracy(average))
