import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(8, 1)
opt = torch.optim.Adam(net.parameters(), lr=100.0)
for i in range(40):
    x = torch.randn(32, 8)
    y = x.sum(1, keepdim=True)
    l = nn.functional.mse_loss(net(x), y)
    opt.zero_grad()
    l.backward()
    opt.step()
