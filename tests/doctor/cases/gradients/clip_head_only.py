import torch
from torch import nn

torch.manual_seed(0)
emb = nn.Linear(6, 8)
head = nn.Linear(8, 2)
net = nn.Sequential(emb, nn.ReLU(), head)
opt = torch.optim.Adam(head.parameters(), 1e-2)
for i in range(40):
    x = torch.randn(16, 6)
    y = (x[:, 0] > 0).long()
    l = nn.functional.cross_entropy(net(x), y)
    opt.zero_grad()
    l.backward()
    opt.step()
    nn.utils.clip_grad_norm_(net.parameters(), 0.5)
