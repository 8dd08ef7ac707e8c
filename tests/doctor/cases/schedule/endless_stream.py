# no epochs at all: a stream, evaluated now and then, with an early drop of the rate after a short warm-up phase
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(6, 2)
opt = torch.optim.SGD(net.parameters(), lr=0.5)
sched = torch.optim.lr_scheduler.MultiStepLR(opt, milestones=[8, 60], gamma=0.3)
for i in range(120):
    a = torch.randn(32, 6)
    b = (a[:, 0] > 0).long()
    l = nn.functional.cross_entropy(net(a), b)
    opt.zero_grad()
    l.backward()
    opt.step()
    sched.step()
    if i % 40 == 39:
        net.eval()
        with torch.no_grad():
            net(torch.randn(100, 6))
        net.train()
