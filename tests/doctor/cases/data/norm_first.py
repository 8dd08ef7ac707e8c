import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)
x = torch.rand(256, 5) * torch.tensor([1000.0, 10.0, 1.0, 50000.0, 3.0])
y = (x[:, 0] / 1000 + x[:, 3] / 50000 > 1).long()
model = nn.Sequential(nn.BatchNorm1d(5), nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
for epoch in range(5):
    model.train()
    for pick in torch.randperm(256).split(32):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x[pick]), y[pick])
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
