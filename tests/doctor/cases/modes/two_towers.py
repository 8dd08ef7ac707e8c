import torch
import torch.nn.functional as F
from torch import nn


class Towers(nn.Module):
    def __init__(self):
        super().__init__()
        self.left = nn.Linear(5, 16)
        self.right = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Dropout(p=1))
        self.out = nn.Linear(32, 1)

    def forward(self, a, b):
        return self.out(torch.cat([torch.relu(self.left(a)), self.right(b)], 1))


torch.manual_seed(37)
a, b = torch.randn(200, 5), torch.randn(200, 5)
y = (a[:, :1] + b[:, :1]).tanh()
model = Towers()
opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
for epoch in range(4):
    model.train()
    for rows in torch.randperm(160).split(16):
        opt.zero_grad()
        F.mse_loss(model(a[rows], b[rows]), y[rows]).backward()
        opt.step()
    model.eval()
    with torch.no_grad():
        print(epoch, F.mse_loss(model(a[160:], b[160:]), y[160:]).item())
