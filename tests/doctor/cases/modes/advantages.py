# advantages of a rollout: values without gradient, in train mode, that the same network is trained on afterwards
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Dropout(0.1), nn.Linear(16, 1))
opt = torch.optim.Adam(net.parameters(), 1e-3)
for it in range(12):
    s = torch.randn(64, 6)
    returns = s[:, 0] + 0.1 * torch.randn(64)
    with torch.no_grad():
        adv = returns - net(s).squeeze(1)
    for i in torch.randperm(64).split(16):
        l = ((net(s[i]).squeeze(1) - returns[i]) ** 2 * adv[i].abs()).mean()
        opt.zero_grad()
        l.backward()
        opt.step()
