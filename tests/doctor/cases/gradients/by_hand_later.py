import torch
from torch import nn

torch.manual_seed(45)
net = nn.Sequential(nn.Linear(5, 24), nn.Tanh(), nn.Linear(24, 1))


def target(x):
    return x[:, :1] * x[:, 1:2]


opt = torch.optim.Adam(net.parameters(), lr=2e-3)
for step in range(60):
    x = torch.randn(32, 5)
    opt.zero_grad()
    nn.functional.mse_loss(net(x), target(x)).backward()
    opt.step()
opt.zero_grad()
for step in range(150):
    x = torch.randn(32, 5)
    loss = nn.functional.mse_loss(net(x), target(x))
    loss.backward()
    with torch.no_grad():
        for p in net.parameters():
            p.add_(p.grad, alpha=-0.002)
    if step % 30 == 0:
        print(step, loss.item())
