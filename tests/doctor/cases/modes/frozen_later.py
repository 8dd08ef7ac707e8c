import torch
from torch import nn

torch.manual_seed(0)
body = nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 16), nn.BatchNorm1d(16), nn.ReLU())
head = nn.Linear(16, 4)
net = nn.Sequential(body, head)
opt = torch.optim.Adam(net.parameters(), 1e-2)


def data(n, k):
    x = torch.randn(n, 6)
    return x, x[:, :k].argmax(1)


for i in range(40):
    x, y = data(32, 4)
    l = nn.functional.cross_entropy(net(x), y)
    opt.zero_grad()
    l.backward()
    opt.step()
for p in body.parameters():
    p.requires_grad = False
new = nn.Sequential(body, nn.Linear(16, 2))
opt = torch.optim.Adam(new[1].parameters(), 1e-2)
new.train()
for i in range(30):
    x, y = data(32, 2)
    l = nn.functional.cross_entropy(new(x + 1), y)
    opt.zero_grad()
    l.backward()
    opt.step()
new.eval()
new(torch.randn(4, 6))
