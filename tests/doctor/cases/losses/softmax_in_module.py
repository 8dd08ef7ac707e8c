import torch
from torch import nn

torch.manual_seed(0)


class N(nn.Module):
    def __init__(s):
        super().__init__()
        s.f = nn.Linear(6, 3)
        s.act = nn.Softmax(dim=1)

    def forward(s, x):
        h = s.f(x)
        return s.act(h)


net = N()
opt = torch.optim.Adam(net.parameters(), 1e-2)
crit = nn.CrossEntropyLoss()
for i in range(40):
    x = torch.randn(32, 6)
    y = x[:, :3].argmax(1)
    l = crit(net(x), y)
    opt.zero_grad()
    l.backward()
    opt.step()
with torch.no_grad():
    for i in range(5):
        crit(net(x), y)
