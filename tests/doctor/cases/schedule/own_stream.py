import torch
from torch import nn

torch.manual_seed(0)
x = torch.randn(600, 6)
y = (x[:, 0] > 0).long()
net = nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.1), nn.Linear(8, 2))
opt = torch.optim.Adam(net.parameters(), lr=0.01)
EPOCHS = 6
sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=EPOCHS)


def stream(n, size):
    while n > 0:
        i = torch.randint(600, (size,))
        n -= 1
        yield x[i], y[i]


for epoch in range(EPOCHS):
    net.train()
    for a, b in stream(25, 24):
        l = nn.functional.cross_entropy(net(a), b)
        opt.zero_grad()
        l.backward()
        opt.step()
        sched.step()
    net.eval()
    with torch.no_grad():
        acc = (net(x).argmax(1) == y).float().mean()
