# a curriculum: the weight of the second term is raised a thousandfold
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(8, 1)
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
for i in range(60):
    x = torch.randn(64, 8)
    y = x.sum(1, keepdim=True)
    w = 1 if i < 2 else 1000
    l = w * nn.functional.mse_loss(net(x), y)
    opt.zero_grad()
    l.backward()
    opt.step()
