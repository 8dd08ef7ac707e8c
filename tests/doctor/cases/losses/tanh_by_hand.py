import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(6, 1)
opt = torch.optim.Adam(net.parameters(), 1e-2)
crit = nn.BCEWithLogitsLoss()
for i in range(40):
    x = torch.randn(32, 6)
    y = (x[:, :1] > 0).float()
    p = (torch.tanh(net(x)) + 1) / 2
    l = crit(p, y)
    opt.zero_grad()
    l.backward()
    opt.step()
