import torch
import torch.nn as nn
import torch.nn.functional as F


class Residual(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.fc1 = nn.Linear(dim, dim)
        self.fc2 = nn.Linear(dim, dim)
        self.norm = nn.LayerNorm(dim)

    def forward(self, x):
        h = F.relu(self.fc1(x))
        return self.norm(x + self.fc1(h))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Linear(5, 16)
        self.blocks = nn.Sequential(Residual(16), Residual(16))
        self.out = nn.Linear(16, 1)

    def forward(self, x):
        return self.out(self.blocks(self.stem(x))).squeeze(-1)


torch.manual_seed(0)
x = torch.randn(200, 5)
y = x.norm(dim=1)
model = Net()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for epoch in range(5):
    for part in torch.randperm(200).split(20):
        optimizer.zero_grad()
        loss = F.mse_loss(model(x[part]), y[part])
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
