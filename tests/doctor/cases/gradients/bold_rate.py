# the loss grows at first: warm-up of a large rate, then falls
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(8, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.3)
for i in range(60):
    x = torch.randn(64, 8)
    y = x.sum(1, keepdim=True)
    l = nn.functional.mse_loss(net(x), y)
    opt.zero_grad()
    l.backward()
    opt.step()
