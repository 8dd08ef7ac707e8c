import torch
import torch.nn as nn
import torch.nn.functional as F


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(6, 24)
        self.fc2 = nn.Linear(24, 1)

    def forward(self, x):
        return self.fc2(torch.tanh(self.fc1(x))).squeeze(-1)


def shrink(model, amount):
    for p in model.parameters():
        p.data.mul_(1 - amount)


torch.manual_seed(0)
x = torch.randn(240, 6)
y = x[:, 0] * x[:, 1]
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
for epoch in range(5):
    for part in torch.randperm(240).split(24):
        out = model(x[part])
        shrink(model, 0.01)
        loss = F.mse_loss(out, y[part])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
