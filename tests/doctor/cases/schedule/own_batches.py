import torch
from torch import nn

torch.manual_seed(0)
x = torch.randn(400, 6)
y = (x[:, 0] > 0).long()
vx, vy = torch.randn(100, 6), None
net = nn.Linear(6, 2)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
sched = torch.optim.lr_scheduler.MultiStepLR(opt, milestones=[4, 7], gamma=0.1)


def batches():
    order = torch.randperm(400)
    for s in range(0, 400, 20):
        yield x[order[s : s + 20]], y[order[s : s + 20]]


for epoch in range(10):
    net.train()
    for a, b in batches():
        l = nn.functional.cross_entropy(net(a), b)
        opt.zero_grad()
        l.backward()
        opt.step()
        sched.step()
    net.eval()
    with torch.no_grad():
        net(vx)
