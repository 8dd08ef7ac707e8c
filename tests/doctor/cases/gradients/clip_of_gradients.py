import torch
from torch import nn

torch.manual_seed(38)
net = nn.Sequential(nn.Linear(6, 40), nn.Tanh(), nn.Linear(40, 1))
opt = torch.optim.SGD(net.parameters(), lr=0.01)
for step in range(150):
    x = torch.randn(32, 6)
    loss = (net(x) - 4 * x[:, :1] * x[:, 1:2]).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_([p.grad for p in net.parameters()], 1.0)
    opt.step()
    if step % 30 == 0:
        print(step, loss.item())
