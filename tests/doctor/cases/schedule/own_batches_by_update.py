# milestones in updates, batches by hand
import torch
from torch import nn

torch.manual_seed(0)
x = torch.randn(400, 6)
y = (x[:, 0] > 0).long()
net = nn.Linear(6, 2)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
sched = torch.optim.lr_scheduler.MultiStepLR(opt, milestones=[100, 160], gamma=0.1)
for epoch in range(10):
    net.train()
    for i in torch.randperm(400).split(20):
        l = nn.functional.cross_entropy(net(x[i]), y[i])
        opt.zero_grad()
        l.backward()
        opt.step()
        sched.step()
    net.eval()
    with torch.no_grad():
        net(x)
