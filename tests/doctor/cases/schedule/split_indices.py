import torch
from torch import nn

torch.manual_seed(0)
x = torch.randn(600, 6)
y = (x[:, 0] > 0).long()
net = nn.Linear(6, 2)
opt = torch.optim.Adam(net.parameters(), lr=0.01)
sched = torch.optim.lr_scheduler.StepLR(opt, step_size=3, gamma=0.5)
for epoch in range(8):
    for i in torch.randperm(600).split(30):
        l = nn.functional.cross_entropy(net(x[i]), y[i])
        opt.zero_grad()
        l.backward()
        opt.step()
        sched.step()
