import torch
from torch import nn

torch.manual_seed(0)
x = torch.randn(600, 6)
y = (x[:, 0] > 0).long()
net = nn.Linear(6, 2)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
sched = torch.optim.lr_scheduler.MultiStepLR(opt, [5, 8], 0.1)
for epoch in range(10):
    for i in torch.randperm(600).split(30):
        l = nn.functional.cross_entropy(net(x[i]), y[i])
        opt.zero_grad()
        l.backward()
        opt.step()
        sched.step()
