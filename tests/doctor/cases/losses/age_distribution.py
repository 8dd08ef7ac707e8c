import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(16)
bins = torch.arange(12.0)


def label_distribution(age, sigma=1.0):
    return F.softmax(-((bins - age.unsqueeze(1)) ** 2) / (2 * sigma**2), dim=1)


x = torch.randn(480, 6)
age = (x[:, 0] * 2 + 6).clamp(0, 11)
net = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 12))
opt = torch.optim.SGD(net.parameters(), lr=0.01)
for epoch in range(3):
    for rows in torch.randperm(480).split(40):
        loss = F.kl_div(net(x[rows]), label_distribution(age[rows]), reduction="batchmean")
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(epoch, loss.item())
