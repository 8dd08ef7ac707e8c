import torch
from torch import nn

torch.manual_seed(7)


def teacher(x):
    return torch.sin(2 * x[:, :1]) + x[:, 1:2] * x[:, 2:3]


net = nn.Sequential(nn.Linear(12, 48), nn.Tanh(), nn.Linear(48, 48), nn.Tanh(), nn.Linear(48, 1))
opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)


def run(steps, batch, lr):
    for i in range(steps):
        for group in opt.param_groups:
            group["lr"] = lr * min(1.0, (i + 1) / 10)
        x = torch.randn(batch, 12)
        loss = (net(x) - teacher(x)).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 5.0)
        opt.step()
        if i % 30 == 29:
            print(i, loss.item())


run(300, 64, 0.05)
run(150, 256, 1.2)
