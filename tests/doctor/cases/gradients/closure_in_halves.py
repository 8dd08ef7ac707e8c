import torch
from torch import nn

torch.manual_seed(43)
x = torch.linspace(-2, 2, 120).unsqueeze(1)
y = torch.sin(2 * x)
net = nn.Sequential(nn.Linear(1, 24), nn.Tanh(), nn.Linear(24, 1))
opt = torch.optim.LBFGS(net.parameters(), lr=0.2, max_iter=4)


def closure():
    opt.zero_grad()
    total = 0.0
    for a, b in zip(x.chunk(2), y.chunk(2)):
        loss = nn.functional.mse_loss(net(a), b) / 2
        loss.backward()
        total = total + loss.detach()
    return total


for epoch in range(40):
    value = opt.step(closure)
    if epoch % 10 == 0:
        print(epoch, value.item())
